// The gather as a body for the GPU: a unit is the widest word, up to 16 bytes, that rows are made of.
#ifndef TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_BODY_H_
#define TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_BODY_H_

#include <vector>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/multi_gather_gpu.h"
#include "cc/core/gpu/pack.h"

namespace tf_booster {
namespace gpu {

struct alignas(16) Word16 {
  uint64_t half[2];
};

template <class Word>
TFB_HOST_DEVICE void CopyOrZero(const char* from, char* to) {
  StorePack(reinterpret_cast<Word*>(to), from == nullptr ? Word() : *reinterpret_cast<const Word*>(from));
}

// A word of 16, 8, 4, 2 bytes or 1, aligned to that; zeros from null.
TFB_HOST_DEVICE void CopyWordOf(int64_t bytes, const char* from, char* to) {
  switch (bytes) {
    case 16:
      return CopyOrZero<Word16>(from, to);
    case 8:
      return CopyOrZero<uint64_t>(from, to);
    case 4:
      return CopyOrZero<uint32_t>(from, to);
    case 2:
      return CopyOrZero<uint16_t>(from, to);
    default:
      return CopyOrZero<uint8_t>(from, to);
  }
}

struct GatherWord {
  template <class Index>
  TFB_HOST_DEVICE void operator()(const GatherJob<Index>& job, int64_t unit) const {
    const int64_t place = unit / job.words, offset = (unit - place * job.words) * job.word;
    const int64_t row = static_cast<int64_t>(job.indices[place]);
    const bool inside = row >= 0 && row < job.rows;
    const char* from = inside ? job.params + row * job.row_bytes + offset : nullptr;
    CopyWordOf(job.word, from, job.out + place * job.row_bytes + offset);
  }
};

template <class Queue, class Index>
void MultiGather(Queue& queue, std::vector<GatherJob<Index>> jobs) {
  for (GatherJob<Index>& job : jobs) {
    const uintptr_t all = static_cast<uintptr_t>(job.row_bytes) | reinterpret_cast<uintptr_t>(job.params) |
                          reinterpret_cast<uintptr_t>(job.out);
    job.word = 16;
    while (all % static_cast<uintptr_t>(job.word) != 0) job.word /= 2;
    job.words = job.row_bytes / job.word;
    job.units = job.size * job.words;
  }
  ForEachUnit(queue, jobs, GatherWord());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_MULTI_GATHER_BODY_H_
