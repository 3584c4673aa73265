// Unique of values that lie close together, such as row numbers of a table: an array by value in place of a hash table.
//
// 2,048 ids below 10,000 by Zipf's law take 2 ns each, in a DistinctSet 6.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_NARROW_VALUES_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_NARROW_VALUES_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/unique/scratch_array.h"

namespace tf_booster {

// From the least value to the greatest, both included; size 0: they are too far apart, or there are none.
template <class T>
struct NarrowRange {
  T least = 0;
  int64_t size = 0;
};

// Eight places a value: clearing them takes a cycle each eight, so less than a look into a hash table.
inline constexpr int64_t kPlacesAValue = 8;

template <class T>
NarrowRange<T> NarrowRangeOf(const T* x, int64_t n) {
  constexpr int64_t kFirstLook = 64;  // Hashes are known by the first values.
  const uint64_t widest = kPlacesAValue * static_cast<uint64_t>(n);
  T least = n > 0 ? x[0] : 0, greatest = least;
  for (int64_t i = 0, end = std::min(n, kFirstLook); i < n; end = n) {
    for (; i < end; ++i) {
      least = std::min(least, x[i]);
      greatest = std::max(greatest, x[i]);
    }
    if (static_cast<uint64_t>(greatest) - static_cast<uint64_t>(least) >= widest) return {};
  }
  return {least, n > 0 ? static_cast<int64_t>(static_cast<uint64_t>(greatest) - static_cast<uint64_t>(least)) + 1 : 0};
}

// The distinct values of x[0] to x[n - 1] in the order of first occurrence, and how often each occurs. n < 2^32.
template <class T, bool kCounts>
class NarrowValues {
 public:
  // idx[i] = first + the place of x[i]. range: NarrowRangeOf's, not of size 0.
  template <class Index>
  NarrowValues(const T* x, int64_t n, NarrowRange<T> range, int64_t first, Index* idx)
      : values_(std::min(n, range.size) + 1, ScratchContents::kUndefined) {
    const ScratchArray<uint32_t> places(range.size);  // By value: place + 1, or 0.
    uint32_t size = 0;
    for (int64_t i = 0; i < n; ++i) {
      uint32_t& place = places[static_cast<uint64_t>(x[i]) - static_cast<uint64_t>(range.least)];
      // Written always, kept if it was new: no branch, which ids would decide.
      values_[size] = x[i];
      uint32_t is_new = place == 0;
      asm("" : "+r"(is_new));  // Otherwise GCC 12 makes a branch of it.
      size += is_new;
      place |= -is_new & size;
      idx[i] = static_cast<Index>(first + place - 1);
    }
    size_ = size;
    if (!kCounts) return;
    counts_ = ScratchArray<int64_t>(size_);
    for (int64_t i = 0; i < n; ++i) ++counts_[idx[i] - first];
  }

  int64_t size() const { return size_; }

  // `counts` may be null without kCounts.
  void CopyTo(T* values, int64_t* counts) const {
    std::copy_n(values_.data(), size_, values);
    if (kCounts) std::copy_n(counts_.data(), size_, counts);
  }

 private:
  ScratchArray<T> values_;  // One more than can be distinct: what is written is not always kept.
  ScratchArray<int64_t> counts_;
  int64_t size_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_NARROW_VALUES_H_
