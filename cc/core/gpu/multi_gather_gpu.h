// Rows of many tensors, gathered by one launch for some 70 of them.
#ifndef TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_GPU_H_
#define TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/row_parts.h"

namespace tf_booster {
namespace gpu {

// out[i] = params[indices[i]], rows of row_bytes each, in the card's memory. Of a table in several parts each has a job
// of its own, with the same indices and out, and writes its own rows; the first one's also zeros for ids of none.
template <class Index>
struct GatherJob {
  const Index* indices = nullptr;
  int64_t size = 0;
  const char* params = nullptr;
  RowParts table;    // rows: of all its parts.
  int64_t part = 0;  // Which of them is in params.
  int64_t row_bytes = 0;
  char* out = nullptr;
  int word = 1;       // Set by the gather itself: bytes that a thread copies at a time,
  int64_t words = 0;  // how many of them a row has,
  int64_t units = 0;  // and how many there are.
};

// Starts on `stream` and does not wait. An index outside gives a row of zeros, as TensorFlow's own gather on the GPU.
// Returns null, or CUDA's message where something could not be started.
template <class Index>
const char* MultiGatherAsync(const std::vector<GatherJob<Index>>& jobs, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_GPU_H_
