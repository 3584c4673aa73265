// What tests of the GPU's kernels need that run on the host, as bodies, and, compiled by nvcc, on a card.
#ifndef TF_BOOSTER_CC_CORE_GPU_CARD_OR_HOST_H_
#define TF_BOOSTER_CC_CORE_GPU_CARD_OR_HOST_H_

#include <vector>

#if defined(__CUDACC__)
#include "cc/core/base/test.h"
#include "cc/core/gpu/managed_array.cuh"
#endif

namespace tf_booster {
namespace gpu {

#if defined(__CUDACC__)
template <class T>
using Array = ManagedArray<T>;
inline void WaitForCard() { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }
#else
template <class T>
using Array = std::vector<T>;
inline void WaitForCard() {}
#endif

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_CARD_OR_HOST_H_
