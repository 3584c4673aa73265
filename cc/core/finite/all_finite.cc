#include "cc/core/finite/all_finite.h"

#include <algorithm>
#include <atomic>

#include "cc/core/base/job_ranges.h"

namespace tf_booster {
namespace {

constexpr int64_t kWordsAtOnce = 4096;  // Between looks at what the others have found.

// Without a branch for each, so that a vector is compared at once.
template <class Word>
bool AreTheseFinite(const Word* words, int64_t n, Word exponent) {
  Word others = 0;
  for (int64_t i = 0; i < n; ++i) others |= static_cast<Word>(!IsFiniteWord(words[i], exponent));
  return others == 0;
}

}  // namespace

template <class Word>
bool AreAllFinite(const std::vector<Words<Word>>& all, Word exponent, ParallelFor& pf) {
  std::vector<int64_t> blocks;
  int64_t ns = 0;
  for (const Words<Word>& words : all) {
    blocks.push_back((words.n + kWordsAtOnce - 1) / kWordsAtOnce);
    ns += words.n / 4;
  }
  std::atomic<bool> found_others{false};
  JobRanges(blocks, ns).Run(pf, [&](size_t i, int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end && !found_others.load(std::memory_order_relaxed); ++block) {
      const int64_t at = block * kWordsAtOnce;
      const int64_t n = std::min(kWordsAtOnce, all[i].n - at);
      if (!AreTheseFinite(all[i].data + at, n, exponent)) found_others = true;
    }
  });
  return !found_others;
}

template bool AreAllFinite(const std::vector<Words<uint16_t>>&, uint16_t, ParallelFor&);
template bool AreAllFinite(const std::vector<Words<uint32_t>>&, uint32_t, ParallelFor&);
template bool AreAllFinite(const std::vector<Words<uint64_t>>&, uint64_t, ParallelFor&);

}  // namespace tf_booster
