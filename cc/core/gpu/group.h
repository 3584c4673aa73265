// Four neighbouring threads of a warp that work together: a row of 64 bytes is one 16-byte load of each. On the host
// one thread goes through the lanes, so what a group does can be tested without a card; groups then run beside each
// other in threads.
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

  // What lane i holds.
  __device__ __forceinline__ uint64_t FromLane(uint64_t value, int i) const {
    return __shfl_sync(mask(), static_cast<unsigned long long>(value), i, kGroupLanes);
  }

  // What f(lane) returned to each lane, for all of them.
  class Answers {
   public:
    __device__ __forceinline__ Answers(const Group& group, uint64_t own) : group_(group), own_(own) {}
    __device__ __forceinline__ uint64_t operator[](int lane) const { return group_.FromLane(own_, lane); }

   private:
    const Group& group_;
    uint64_t own_;
  };
  template <class F>
  __device__ __forceinline__ Answers ByEach(const F& f) const {
    return Answers(*this, f(rank_));
  }

  // f() by one lane alone.
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
  // A row of each lane, n words at the address it answered with, to row 0, 1, … of `to`; null: none. Short rows are
  // asked for all at once, of others two words of two: a word of all four leaves a row, and the memory's page, before
  // it is read (0.66 of a copy's rate on an H100 at dim 128, for 0.81; two words of one: 0.82).
  template <class Word>
  __device__ __forceinline__ void CopyRows(int64_t n, const Answers& from, Word* to) const {
    n <= kGroupLanes ? CopyRowsBy<kGroupLanes, 1>(n, from, to) : CopyRowsBy<2, 2>(n, from, to);
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
      Word words[kAtOnce] = {};  // Or nvcc keeps those of the round before.
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
  template <int kRows, int kWords, class Word>
  __device__ __forceinline__ void CopyRowsBy(int64_t n, const Answers& from, Word* to) const {
#pragma unroll 1
    for (int lane = 0; lane < kGroupLanes; lane += kRows) {
      const Word* rows[kRows];
      TFB_UNROLL
      for (int r = 0; r < kRows; ++r) rows[r] = reinterpret_cast<const Word*>(from[lane + r]);
#pragma unroll 1
      for (int at = rank_; at < static_cast<int>(n); at += kWords * kGroupLanes) {
        Word words[kRows][kWords] = {};  // Or nvcc keeps those of the round before.
        TFB_UNROLL
        for (int r = 0; r < kRows; ++r) {
          TFB_UNROLL
          for (int w = 0; w < kWords; ++w) {
            const int word = at + w * kGroupLanes;
            if (rows[r] != nullptr && word < static_cast<int>(n)) words[r][w] = rows[r][word];
          }
        }
        TFB_UNROLL
        for (int r = 0; r < kRows; ++r) {
          TFB_UNROLL
          for (int w = 0; w < kWords; ++w) {
            const int word = at + w * kGroupLanes;
            if (rows[r] != nullptr && word < static_cast<int>(n)) StorePack(to + (lane + r) * n + word, words[r][w]);
          }
        }
      }
    }
  }
  __device__ __forceinline__ unsigned mask() const { return ((1u << kGroupLanes) - 1) << shift_; }

  int rank_;
  unsigned shift_;
};

#else

class Group {
 public:
  struct Answers {
    uint64_t of_lanes[kGroupLanes];
    uint64_t operator[](int lane) const { return of_lanes[lane]; }
  };
  template <class F>
  Answers ByEach(const F& f) const {
    Answers answers;
    for (int lane = 0; lane < kGroupLanes; ++lane) answers.of_lanes[lane] = f(lane);
    return answers;
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
  void CopyRows(int64_t n, const Answers& from, Word* to) const {
    for (int lane = 0; lane < kGroupLanes; ++lane) {
      const auto* const row = reinterpret_cast<const Word*>(from[lane]);
      if (row != nullptr) Copy(n, row, to + lane * n);
    }
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
