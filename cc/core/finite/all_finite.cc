#include "cc/core/finite/all_finite.h"

#include <algorithm>
#include <atomic>

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
  std::vector<int64_t> first = {0};  // Words of all, one after the other.
  for (const Words<Word>& words : all) first.push_back(first.back() + words.n);
  std::atomic<bool> found_others{false};
  const int64_t blocks = (first.back() + kWordsAtOnce - 1) / kWordsAtOnce;
  pf.Run(blocks, kWordsAtOnce / 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end && !found_others.load(std::memory_order_relaxed); ++block) {
      int64_t at = block * kWordsAtOnce;
      const int64_t stop = std::min(at + kWordsAtOnce, first.back());
      size_t i = std::upper_bound(first.begin(), first.end(), at) - first.begin() - 1;
      for (; at < stop; ++i) {
        const int64_t n = std::min(stop, first[i + 1]) - at;
        if (!AreTheseFinite(all[i].data + (at - first[i]), n, exponent)) found_others = true;
        at += n;
      }
    }
  });
  return !found_others;
}

template bool AreAllFinite(const std::vector<Words<uint16_t>>&, uint16_t, ParallelFor&);
template bool AreAllFinite(const std::vector<Words<uint32_t>>&, uint32_t, ParallelFor&);
template bool AreAllFinite(const std::vector<Words<uint64_t>>&, uint64_t, ParallelFor&);

}  // namespace tf_booster
