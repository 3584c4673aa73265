// all_finite.h on the card: all arrays by two launches or few.
#ifndef TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_GPU_H_
#define TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_GPU_H_

#include <vector>

#include "cc/core/finite/all_finite.h"

namespace tf_booster {
namespace gpu {

// result: in the card's memory. Starts on `stream` and does not wait. Null, or CUDA's message.
template <class Word>
const char* AreAllFiniteAsync(const std::vector<Words<Word>>& all, Word exponent, bool* result, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_GPU_H_
