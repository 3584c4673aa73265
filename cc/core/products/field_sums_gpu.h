// A factorization machine's sums on the card: those of field_sums.h, in the same order, so with the same bits.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_GPU_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/products/field_sums.h"

namespace tf_booster {
namespace gpu {

// Started on `stream`; arrays are in the card's memory, and nothing waits. Null, or CUDA's message.
const char* SumFieldsAsync(const Fields& in, const FieldSums& out, const std::vector<FieldCopy>& copies, void* stream);

const char* SumFieldsGradientAsync(const Fields& in, const std::vector<FieldRange>& ranges, float* gradient,
                                   void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_GPU_H_
