// The instruction sets that cc/core has code for, and which of them this machine runs.
#ifndef TF_BOOSTER_CC_CORE_BASE_CPU_FEATURES_H_
#define TF_BOOSTER_CC_CORE_BASE_CPU_FEATURES_H_

#include <string_view>
#include <vector>

namespace tf_booster {

// Each level includes the ones before it.
enum class SimdLevel : int {
  kScalar = 0,
  kSse41 = 1,
  kAvx2NoBmi2 = 2,  // With BMI1, LZCNT and POPCNT.
  kAvx2 = 3,        // And BMI2.
  kAvx512 = 4,      // F, BW, DQ, VL, VBMI and VBMI2: Ice Lake, Zen 4 and later. A Skylake-X runs kAvx2.
};

// "scalar", "sse4.1", "avx2-no-bmi2", "avx2", "avx512".
const char* SimdLevelName(SimdLevel level);

// False for a name that is none of these.
bool SimdLevelFromName(std::string_view name, SimdLevel* level);

// Asks the processor and the operating system once.
bool Runs(SimdLevel level);

// The highest level whose instructions are fast here.
SimdLevel BestSimdLevel();

// The family of AMD's processors, and Hygon's: 25 is Zen 3 and 4, 26 Zen 5. 0 for all others.
int AmdFamily();

// All levels that run here, lowest first: what a test goes through.
std::vector<SimdLevel> RunnableSimdLevels();

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_CPU_FEATURES_H_
