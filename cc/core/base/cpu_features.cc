#include "cc/core/base/cpu_features.h"

#include <cpuid.h>

#include <cstddef>
#include <iterator>

namespace tf_booster {
namespace {

constexpr const char* kNames[] = {"scalar", "sse4.1", "avx2-no-bmi2", "avx2", "avx512"};

SimdLevel Highest() {
  __builtin_cpu_init();  // Its answers count what the operating system saves, too.
  if (!__builtin_cpu_supports("sse4.1")) return SimdLevel::kScalar;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("popcnt")) {
    return SimdLevel::kSse41;
  }
  // gcc 12 cannot be asked for LZCNT.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) || (ecx & bit_LZCNT) == 0) return SimdLevel::kSse41;
  if (!__builtin_cpu_supports("bmi2")) return SimdLevel::kAvx2NoBmi2;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
  return avx512 ? SimdLevel::kAvx512 : SimdLevel::kAvx2;
}

SimdLevel HighestHere() {
  static const SimdLevel highest = Highest();
  return highest;
}

// PEXT and PDEP are microcode on Zen 1, Zen+ and Zen 2 (family 17h) and on Hygon's copy (18h): 18 cycles and more,
// where others take one.
bool SlowBmi2() { return AmdFamily() == 0x17 || AmdFamily() == 0x18; }

}  // namespace

const char* SimdLevelName(SimdLevel level) { return kNames[static_cast<int>(level)]; }

bool SimdLevelFromName(std::string_view name, SimdLevel* level) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name != kNames[i]) continue;
    *level = static_cast<SimdLevel>(i);
    return true;
  }
  return false;
}

int AmdFamily() {
  static const int family = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    __get_cpuid(0, &eax, &ebx, &ecx, &edx);
    if (ebx != signature_AMD_ebx && ebx != 0x6f677948) return 0;  // "Auth", "Hygo".
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    return static_cast<int>(((eax >> 8) & 15) + ((eax >> 20) & 255));
  }();
  return family;
}

bool Runs(SimdLevel level) { return level <= HighestHere(); }

SimdLevel BestSimdLevel() {
  static const SimdLevel highest = HighestHere();
  static const SimdLevel best = highest == SimdLevel::kAvx2 && SlowBmi2() ? SimdLevel::kAvx2NoBmi2 : highest;
  return best;
}

std::vector<SimdLevel> RunnableSimdLevels() {
  std::vector<SimdLevel> levels;
  for (int i = 0; i <= static_cast<int>(HighestHere()); ++i) levels.push_back(static_cast<SimdLevel>(i));
  return levels;
}

}  // namespace tf_booster
