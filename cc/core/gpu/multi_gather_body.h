// The gather as a body for the GPU: a unit is the widest word, up to 16 bytes, that rows are made of.
#ifndef TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_BODY_H_
#define TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_BODY_H_

#include <vector>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/multi_gather_gpu.h"
#include "cc/core/gpu/words.h"

namespace tf_booster {
namespace gpu {

struct GatherWord {
  template <class Index>
  TFB_HOST_DEVICE void operator()(const GatherJob<Index>& job, int64_t unit) const {
    const int64_t place = unit / job.words, offset = (unit - place * job.words) * job.word;
    RowParts::Row at = {0, static_cast<int64_t>(job.indices[place])};
    const bool inside = at.row >= 0 && at.row < job.table.rows;
    if (job.table.parts > 1) {
      if (inside) at = job.table.RowOf(at.row);
      if (at.part != job.part) return;
    }
    const char* from = inside ? job.params + at.row * job.row_bytes + offset : nullptr;
    CopyWordOf(job.word, from, job.out + place * job.row_bytes + offset);
  }
};

template <class Queue, class Index>
void MultiGather(Queue& queue, std::vector<GatherJob<Index>> jobs) {
  for (GatherJob<Index>& job : jobs) {
    const uintptr_t all = static_cast<uintptr_t>(job.row_bytes) | reinterpret_cast<uintptr_t>(job.params) |
                          reinterpret_cast<uintptr_t>(job.out);
    job.word = WidestWord(all);
    job.words = job.row_bytes / job.word;
    job.units = job.size * job.words;
  }
  ForEachUnit(queue, jobs, GatherWord());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_BODY_H_
