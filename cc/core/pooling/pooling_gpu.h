// Pooling and its gradient in the card's memory: many lookups by a few launches.
#ifndef TF_BOOSTER_CC_CORE_POOLING_POOLING_GPU_H_
#define TF_BOOSTER_CC_CORE_POOLING_POOLING_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/host_device.h"
#include "cc/core/pooling/segment_pooling.h"

namespace tf_booster {
namespace gpu {

// One lookup, in the card's memory. `ids`: how many places `idx` has. Inputs that do not fit together, which the CPU
// refuses, are cut to what lies inside of them: the card cannot raise an error.
template <class T>
struct PoolJob {
  PoolingSegments segments;
  int64_t ids = 0;
  const T* in = nullptr;    // Embeddings [distinct, dim]; for the gradient that of `pooled` [rows, dim].
  T* out = nullptr;         // pooled [rows, dim]; the gradient of the embeddings [distinct, dim].
  int64_t pooled_step = 0;  // From a row of what is pooled, or of its gradient, to the next; 0: dim.

  TFB_HOST_DEVICE int64_t step() const { return pooled_step > 0 ? pooled_step : segments.dim; }
};

// Both start on `stream` and do not wait; they return null, or CUDA's message where something could not be started. The
// order of additions is that of the CPU, but for embeddings that a batch has more than 64 times: see row_groups.h.
template <class T>
const char* PoolAsync(const std::vector<PoolJob<T>>& jobs, void* stream);

// `scratch`: PoolGradientScratchBytes() bytes that nobody else uses until it is done. Fewer than 2^31 ids.
template <class T>
const char* PoolGradientAsync(const std::vector<PoolJob<T>>& jobs, void* scratch, void* stream);
template <class T>
int64_t PoolGradientScratchBytes(const std::vector<PoolJob<T>>& jobs);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_POOLING_GPU_H_
