// The copy as a body for the GPU: a unit is the widest word, up to 16 bytes, that both sides are aligned to.
#ifndef TF_BOOSTER_CC_CORE_GPU_MULTI_COPY_BODY_H_
#define TF_BOOSTER_CC_CORE_GPU_MULTI_COPY_BODY_H_

#include <vector>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/multi_copy_gpu.h"
#include "cc/core/gpu/words.h"

namespace tf_booster {
namespace gpu {

struct CopyWord {
  TFB_HOST_DEVICE void operator()(const CopyJob& job, int64_t unit) const {
    const int64_t at = unit * job.word;
    const char* from = job.from + at;
    char* to = job.to + at;
    if (at + job.word > job.bytes) {  // The end of the array, and zeros behind it.
      for (int64_t b = 0; b < job.word && at + b < job.room; ++b) to[b] = at + b < job.bytes ? from[b] : 0;
      return;
    }
    CopyWordOf(job.word, from, to);
  }
};

template <class Queue>
void MultiCopy(Queue& queue, std::vector<CopyJob> jobs) {
  for (CopyJob& job : jobs) {
    const uintptr_t all = reinterpret_cast<uintptr_t>(job.from) | reinterpret_cast<uintptr_t>(job.to);
    job.word = WidestWord(all);
    job.units = CeilDiv(job.room, job.word);
  }
  ForEachUnit(queue, jobs, CopyWord());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_MULTI_COPY_BODY_H_
