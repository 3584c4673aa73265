#include "cc/core/base/cpu_features.h"

#include <cpuid.h>

namespace tf_booster {
namespace {

constexpr const char* kNames[] = {"scalar", "sse4.1", "avx2", "avx512"};

SimdLevel Highest() {
  __builtin_cpu_init();  // Its answers count what the operating system saves, too.
  if (!__builtin_cpu_supports("sse4.1")) return SimdLevel::kScalar;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("popcnt")) {
    return SimdLevel::kSse41;
  }
  // gcc 12 cannot be asked for LZCNT.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) || (ecx & bit_LZCNT) == 0) return SimdLevel::kSse41;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
  return avx512 ? SimdLevel::kAvx512 : SimdLevel::kAvx2;
}

SimdLevel HighestHere() {
  static const SimdLevel highest = Highest();
  return highest;
}

// PEXT is microcode on Zen 1, Zen+ and Zen 2 (family 17h) and on Hygon's copy (18h): 18 cycles and more, where others
// take one.
bool SlowPext() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __get_cpuid(0, &eax, &ebx, &ecx, &edx);
  const bool amd = ebx == signature_AMD_ebx || ebx == 0x6f677948;  // "Auth", "Hygo".
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  const unsigned family = ((eax >> 8) & 15) + ((eax >> 20) & 255);
  return amd && (family == 0x17 || family == 0x18);
}

}  // namespace

const char* SimdLevelName(SimdLevel level) { return kNames[static_cast<int>(level)]; }

bool SimdLevelFromName(std::string_view name, SimdLevel* level) {
  for (int i = 0; i < 4; ++i) {
    if (name != kNames[i]) continue;
    *level = static_cast<SimdLevel>(i);
    return true;
  }
  return false;
}

bool Runs(SimdLevel level) { return level <= HighestHere(); }

SimdLevel BestSimdLevel() {
  static const SimdLevel best = HighestHere() == SimdLevel::kAvx2 && SlowPext() ? SimdLevel::kSse41 : HighestHere();
  return best;
}

std::vector<SimdLevel> RunnableSimdLevels() {
  std::vector<SimdLevel> levels;
  for (int i = 0; i <= static_cast<int>(HighestHere()); ++i) levels.push_back(static_cast<SimdLevel>(i));
  return levels;
}

}  // namespace tf_booster
