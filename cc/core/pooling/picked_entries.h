// What is there in a dense feature: entries other than the one that stands for none, as a sparse tensor has them.
#ifndef TF_BOOSTER_CC_CORE_POOLING_PICKED_ENTRIES_H_
#define TF_BOOSTER_CC_CORE_POOLING_PICKED_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tf_booster {

template <class T, class IsMissing>
int64_t CountEntries(const T* dense, int64_t size, IsMissing is_missing) {
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) count += is_missing(dense[i]) ? 0 : 1;
  return count;
}

// dense: [dims…], row by row. values: [count]; indices: [count, rank], where each of them stands; both in the order of
// `dense`.
template <class T, class IsMissing>
void PickEntries(const T* dense, const std::vector<int64_t>& dims, IsMissing is_missing, T* values, int64_t* indices) {
  int64_t size = 1;
  for (const int64_t dim : dims) size *= dim;
  if (dims.size() == 2) {
    const int64_t columns = dims[1];
    for (int64_t i = 0, row = 0; i < size; ++row) {
      for (int64_t column = 0; column < columns; ++column, ++i) {
        if (is_missing(dense[i])) continue;
        *values++ = dense[i];
        *indices++ = row;
        *indices++ = column;
      }
    }
    return;
  }
  std::vector<int64_t> at(dims.size(), 0);
  for (int64_t i = 0; i < size; ++i) {
    if (!is_missing(dense[i])) {
      *values++ = dense[i];
      for (const int64_t place : at) *indices++ = place;
    }
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_PICKED_ENTRIES_H_
