// tf.clip_by_norm of each row, and its gradient: what `max_norm` of an embedding is.
#ifndef TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_H_
#define TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// Rows [count, dim], each scaled to a norm of max_norm if its norm is larger.
struct ClipRows {
  const float* rows = nullptr;
  const float* grads = nullptr;  // Of the clipped rows, [count, dim]; null: `out` is the clipped rows.
  float* out = nullptr;          // Else the gradients of the rows.
  int64_t count = 0;
  int64_t dim = 0;
  float max_norm = 0;
};

void ClipAllRows(const std::vector<ClipRows>& all, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_H_
