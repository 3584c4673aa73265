// Unique of a small batch, without memory from anywhere but the stack: what a larger set allocates and clears costs
// more than a few values do.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_FEW_VALUES_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_FEW_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cc/core/unique/distinct_set.h"

namespace tf_booster {

inline constexpr int64_t kFewValues = 256;

// The distinct values of x[0] to x[n - 1], n <= kFewValues, in the order of first occurrence, and how often each
// occurs.
template <class T, bool kCounts>
class FewValues {
 public:
  // idx[i] = first + the place of x[i].
  template <class Index>
  FewValues(const T* x, int64_t n, int64_t first, Index* idx) {
    int bits = 4;
    while (int64_t{1} << bits < kSlotsAValue * n) ++bits;
    const uint32_t mask = (1u << bits) - 1;
    std::memset(places_, 0, sizeof(places_[0]) << bits);
    for (int64_t i = 0; i < n; ++i) {
      uint32_t slot = UniqueTag(x[i]) >> (32 - bits);
      while (places_[slot] != 0 && values_[places_[slot] - 1] != x[i]) slot = (slot + 1) & mask;
      if (places_[slot] == 0) Append(x[i], &places_[slot]);
      const int64_t place = places_[slot] - 1;
      if (kCounts) ++counts_[place];
      idx[i] = static_cast<Index>(first + place);
    }
  }

  int64_t size() const { return size_; }

  // `counts` may be null without kCounts.
  void CopyTo(T* values, int64_t* counts) const {
    std::copy_n(values_, size_, values);
    if (kCounts) std::copy_n(counts_, size_, counts);
  }

 private:
  static constexpr int64_t kSlotsAValue = 4;  // One value in eight meets a slot that is another's.

  void Append(T value, uint16_t* place) {
    values_[size_] = value;
    if (kCounts) counts_[size_] = 0;
    *place = static_cast<uint16_t>(++size_);
  }

  int64_t size_ = 0;
  uint16_t places_[kSlotsAValue * kFewValues];  // By slot: place + 1, or 0.
  T values_[kFewValues];
  int64_t counts_[kCounts ? kFewValues : 1];
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_FEW_VALUES_H_
