// all_finite.h as a body for the GPU: a unit is 16 bytes where they are aligned, else a word. Whoever finds a number
// that is not finite writes false; all write the same, so nobody waits for anybody.
#ifndef TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_BODY_H_
#define TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_BODY_H_

#include <vector>

#include "cc/core/finite/all_finite_gpu.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"

namespace tf_booster {
namespace gpu {

template <class Word>
struct FiniteJob {
  const Word* words;
  int64_t n;
  bool packed;
  int64_t units;
};

template <class Word>
struct FindOthers {
  Word exponent;
  bool* result;

  TFB_HOST_DEVICE void operator()(const FiniteJob<Word>& job, int64_t unit) const {
    using V = Pack<Word>;
    const int64_t first = job.packed ? unit * V::kSize : unit;
    if (!job.packed || job.n - first < V::kSize) {
      for (int64_t i = first; i < (job.packed ? job.n : first + 1); ++i) Look(LoadPack(job.words + i));
      return;
    }
    const V words = LoadPack(reinterpret_cast<const V*>(job.words + first));
    TFB_UNROLL
    for (int e = 0; e < V::kSize; ++e) Look(words.at[e]);
  }
  TFB_HOST_DEVICE void Look(Word word) const {
    if (!IsFiniteWord(word, exponent)) *result = false;
  }
};

struct SayYes {
  bool* result;
  TFB_HOST_DEVICE void operator()(int64_t) const { *result = true; }
};

template <class Queue, class Word>
void AreAllFiniteOn(Queue& queue, const std::vector<Words<Word>>& all, Word exponent, bool* result) {
  ForEach(queue, 1, SayYes{result});
  std::vector<FiniteJob<Word>> jobs;
  for (const Words<Word>& words : all) {
    const bool packed = IsPackAligned(words.data);
    jobs.push_back({words.data, words.n, packed, packed ? CeilDiv(words.n, Pack<Word>::kSize) : words.n});
  }
  ForEachUnit(queue, jobs, FindOthers<Word>{exponent, result});
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_BODY_H_
