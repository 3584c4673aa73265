// The rows of a sparse gradient: which rows of a Variable have one, and the sum of each.
//
// Sums are taken in the order of occurrence, starting at 0, as TensorFlow's UnsortedSegmentSum does behind its Unique:
// the bits are the same, on any number of threads, because one thread takes a row's gradients whole.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_ROWS_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/core/unique/distinct_set.h"
#include "cc/core/unique/scratch_array.h"

namespace tf_booster {

// indices: [size]; grads: [size, dim]. Borrowed.
template <class T, class Index>
struct SparseGradient {
  const Index* indices = nullptr;
  const T* grads = nullptr;
  int64_t size = 0;
  int64_t dim = 0;
};

// A share of the rows, for one thread: rows whose hash begins with `number`, in `bits` bits.
struct RowShare {
  uint64_t number = 0;
  int bits = 0;

  bool Has(int64_t row) const {
    return bits == 0 || static_cast<uint64_t>(row) * uint64_t{0x9e3779b97f4a7c15} >> (64 - bits) == number;
  }
};

template <class T>
class SparseRows {
 public:
  struct Row {
    int64_t index;
    const T* grad;  // [dim]: the only gradient of the row, borrowed, or the sum of several.
  };

  // The rows of `share`, in the order of their first occurrence.
  template <class Index>
  void Sum(const SparseGradient<T, Index>& gradient, const RowShare& share) {
    DistinctSet<int64_t, false> distinct(gradient.size >> share.bits);
    Collect(
        gradient, [&](int64_t row) { return share.Has(row); },
        [&](int64_t row) {
          distinct.Reserve(static_cast<int64_t>(places_.size()), 1);
          return static_cast<int64_t>(distinct.Add(UniqueTag(row), row));
        });
  }

  // Rows [begin, end), in the order of their first occurrence. place[row - begin], which must be zeros, becomes 1 + the
  // place in rows().
  template <class Index>
  void SumRange(const SparseGradient<T, Index>& gradient, int64_t begin, int64_t end, uint32_t* place) {
    int64_t known = 0;
    Collect(
        gradient, [&](int64_t row) { return row >= begin && row < end; },
        [&](int64_t row) {
          uint32_t& mine = place[row - begin];
          if (mine == 0) mine = static_cast<uint32_t>(++known);
          return static_cast<int64_t>(mine) - 1;
        });
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  template <class Index, class Wanted, class PlaceOf>
  void Collect(const SparseGradient<T, Index>& gradient, Wanted wanted, PlaceOf place_of) {
    std::vector<int64_t> sum_of;  // By place: 1 + the number of the row's sum; 0 while it has one gradient.
    int64_t sums = 0;
    for (int64_t i = 0; i < gradient.size; ++i) {
      const int64_t row = static_cast<int64_t>(gradient.indices[i]);
      if (!wanted(row)) continue;
      const int64_t place = place_of(row);
      if (place == static_cast<int64_t>(rows_.size())) {
        rows_.push_back({row, gradient.grads + i * gradient.dim});
        sum_of.push_back(0);
      } else if (sum_of[place] == 0) {
        sum_of[place] = ++sums;
      }
      places_.push_back({i, place});
    }
    if (sums == 0) return;
    sums_ = ScratchArray<T>(sums * gradient.dim);
    for (const auto& [i, place] : places_) {
      if (sum_of[place] == 0) continue;
      const T* __restrict grad = gradient.grads + i * gradient.dim;
      T* __restrict sum = sums_.data() + (sum_of[place] - 1) * gradient.dim;
      for (int64_t j = 0; j < gradient.dim; ++j) sum[j] += grad[j];
    }
    for (size_t place = 0; place < sum_of.size(); ++place) {
      if (sum_of[place] != 0) rows_[place].grad = sums_.data() + (sum_of[place] - 1) * gradient.dim;
    }
  }

  struct Occurrence {
    int64_t i;
    int64_t place;
  };
  std::vector<Row> rows_;
  std::vector<Occurrence> places_;
  ScratchArray<T> sums_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_ROWS_H_
