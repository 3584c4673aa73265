// Clipped rows as a body for the GPU: a thread has a row, and sums it up in the CPU's order. It reads the row twice or
// three times, from the caches: rows are a few lines long.
#ifndef TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_BODY_H_
#define TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_BODY_H_

#include <vector>

#include "cc/core/clipping/clip_row.h"
#include "cc/core/clipping/clip_rows_gpu.h"
#include "cc/core/gpu/launch.h"

namespace tf_booster {
namespace gpu {

struct ClipJob {
  ClipRows clip;
  int64_t units;
};

struct ClipOneRow {
  TFB_HOST_DEVICE void operator()(const ClipJob& job, int64_t r) const {
    const ClipRows& clip = job.clip;
    const RowClipping row(clip.rows + r * clip.dim, clip.dim, clip.max_norm);
    float* const out = clip.out + r * clip.dim;
    if (clip.grads == nullptr) {
      row.Clip(out);
    } else {
      row.Gradient(clip.grads + r * clip.dim, true, out);
    }
  }
};

template <class Queue>
void ClipAllRowsOn(Queue& queue, const std::vector<ClipRows>& all) {
  std::vector<ClipJob> jobs;
  for (const ClipRows& clip : all) jobs.push_back({clip, clip.dim > 0 ? clip.count : 0});
  ForEachUnit(queue, jobs, ClipOneRow());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_BODY_H_
