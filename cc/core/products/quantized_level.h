// The instruction sets that quantised products have code for. Those of SimdLevel are no help: Cascade Lake has VNNI
// without what kAvx512 asks for.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LEVEL_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LEVEL_H_

#include <vector>

namespace tf_booster {

// All give the same bits.
enum class QuantizedLevel : int { kScalar = 0, kAvx2 = 1, kVnni = 2 };

// "scalar", "avx2", "avx512-vnni".
const char* QuantizedLevelName(QuantizedLevel level);

// The highest that this machine runs.
QuantizedLevel BestQuantizedLevel();

// All levels that run here, lowest first.
std::vector<QuantizedLevel> RunnableQuantizedLevels();

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LEVEL_H_
