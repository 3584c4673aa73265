// Four neighbouring threads of a warp that work on one unit together: a bucket of four entries is one 16-byte load of
// each, a row of 64 bytes as well. On the host one thread goes through the lanes, so what a group does can be tested
// without a card; groups then run beside each other in threads.
//
// What lanes differ in they get as their number; between calls they hold nothing of their own. All lanes of a group
// take the same way through the code.
#ifndef TF_BOOSTER_CC_CORE_GPU_GROUP_H_
#define TF_BOOSTER_CC_CORE_GPU_GROUP_H_

#include <cstdint>

#include "cc/core/base/host_device.h"
#include "cc/core/gpu/pack.h"

namespace tf_booster {
namespace gpu {

inline constexpr int kGroupLanes = 4;

#if defined(__CUDA_ARCH__)

class Group {
 public:
  __device__ __forceinline__ Group() : rank_(static_cast<int>(threadIdx.x) % kGroupLanes) {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    shift_ = lane / kGroupLanes * kGroupLanes;
  }

  __device__ __forceinline__ int rank() const { return rank_; }

  // Bit i: whether lane i said so.
  __device__ __forceinline__ uint32_t Ballot(bool vote) const {
    return __ballot_sync(mask(), vote) >> shift_ & ((1u << kGroupLanes) - 1);
  }
  // What lane i holds.
  __device__ __forceinline__ uint64_t FromLane(uint64_t value, int i) const {
    return __shfl_sync(mask(), static_cast<unsigned long long>(value), i, kGroupLanes);
  }

  // f() by one lane alone; all get what it returns.
  template <class F>
  __device__ __forceinline__ uint64_t ByOne(const F& f) const {
    const uint64_t value = rank_ == 0 ? f() : 0;
    return FromLane(value, 0);
  }
  template <class F>
  __device__ __forceinline__ void Once(const F& f) const {
    if (rank_ == 0) f();
  }
  // f(0) … f(n - 1), spread over the lanes.
  template <class F>
  __device__ __forceinline__ void ForEach(int64_t n, const F& f) const {
#pragma unroll 1
    for (int64_t i = rank_; i < n; i += kGroupLanes) f(i);
  }
  // Words 0 … n - 1 of `from` to `to`, which has none of them. A lane asks for two before it stores the first: a
  // store might change what is loaded next, for all that the compiler knows, so word by word it would wait for each.
  // (Four take 16 registers more, which leaves fewer threads that ask.)
  template <class Word>
  __device__ __forceinline__ void Copy(int64_t n, const Word* from, Word* to) const {
    constexpr int kAtOnce = 2;
    from += rank_;
    to += rank_;
#pragma unroll 1
    for (int left = static_cast<int>(n) - rank_; left > 0; left -= kAtOnce * kGroupLanes) {
      Word words[kAtOnce];
      TFB_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (j * kGroupLanes < left) words[j] = from[j * kGroupLanes];
      }
      TFB_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (j * kGroupLanes < left) StorePack(to + j * kGroupLanes, words[j]);
      }
      from += kAtOnce * kGroupLanes;
      to += kAtOnce * kGroupLanes;
    }
  }

 private:
  __device__ __forceinline__ unsigned mask() const { return ((1u << kGroupLanes) - 1) << shift_; }

  int rank_;
  unsigned shift_;
};

#else

class Group {
 public:
  template <class F>
  uint64_t ByOne(const F& f) const {
    return f();
  }
  template <class F>
  void Once(const F& f) const {
    f();
  }
  template <class F>
  void ForEach(int64_t n, const F& f) const {
    for (int64_t i = 0; i < n; ++i) f(i);
  }
  template <class Word>
  void Copy(int64_t n, const Word* from, Word* to) const {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
};

#endif

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_GROUP_H_
