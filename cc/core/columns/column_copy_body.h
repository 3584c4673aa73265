// The copy of columns as a body for the GPU: a unit is the widest word, up to 16 bytes, that both sides are aligned to
// in all rows.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_BODY_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_BODY_H_

#include <vector>

#include "cc/core/columns/column_copy_gpu.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/words.h"

namespace tf_booster {
namespace gpu {

struct CopyColumns {
  TFB_HOST_DEVICE void operator()(const ColumnsJob& job, int64_t unit) const {
    const int64_t words = job.width / job.word, row = unit / words, offset = (unit - row * words) * job.word;
    CopyWordOf(job.word, job.from + row * job.from_step + offset, job.to + row * job.to_step + offset);
  }
};

template <class Queue>
void CopyColumnsOnQueue(Queue& queue, std::vector<ColumnsJob> jobs) {
  for (ColumnsJob& job : jobs) {
    const uintptr_t all = reinterpret_cast<uintptr_t>(job.from) | reinterpret_cast<uintptr_t>(job.to) |
                          static_cast<uintptr_t>(job.width | job.from_step | job.to_step);
    job.word = WidestWord(all);
    job.units = job.rows * (job.width / job.word);
  }
  ForEachUnit(queue, jobs, CopyColumns());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_BODY_H_
