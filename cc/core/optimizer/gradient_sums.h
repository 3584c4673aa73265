// One gradient for each key: its only one, borrowed, or the sum of several in the order of their occurrence. Gradients
// come in several matrices, one for each lookup's.
//
// Gradients are read in the order in which they lie in memory, and only those of keys that have several; the sums that
// they are added to mostly stay in the caches. (Visiting the gradients key by key instead took three times as long:
// each was a cache miss and a TLB miss.) With several threads each takes some of the keys, whole: the bits do not
// depend on how many.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_SUMS_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_SUMS_H_

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/base/lines_ahead.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/unique/scratch_array.h"

namespace tf_booster {

class GradientSums {
 public:
  static constexpr int64_t kMaxRows = int64_t{1} << 31;

  // [num_rows, dim], borrowed.
  struct Matrix {
    const float* grads = nullptr;
    int64_t num_rows = 0;
  };

  // A row of one of the matrices; `matrix` is their number where no row is meant.
  struct Place {
    int64_t matrix;
    int64_t row;
  };

  // What place_of(matrix, row) says when it is not a place.
  static constexpr int64_t kNoPlace = -1;
  static constexpr int64_t kWrongPlace = -2;

  // Whether Build can number all rows.
  static bool Fits(const std::vector<Matrix>& matrices) {
    int64_t rows = 0;
    for (const Matrix& matrix : matrices) rows = NextStart(rows + matrix.num_rows);
    return rows < kMaxRows;
  }

  // place_of(matrix, row): which of `num_places` keys a gradient belongs to. Returns the first whose place is wrong.
  template <class PlaceOf>
  Place Build(std::vector<Matrix> matrices, int64_t dim, int64_t num_places, PlaceOf place_of, ParallelFor& pf) {
    matrices_ = std::move(matrices);
    dim_ = dim;
    int64_t num_rows = 0;
    for (const Matrix& matrix : matrices_) {
      starts_.push_back(num_rows);
      num_rows = NextStart(num_rows + matrix.num_rows);
      bases_.resize(num_rows >> kStartBits, Base{matrix.grads, starts_.back()});
    }
    while (part_bits_ < kMaxPartBits && (2 << part_bits_) <= pf.num_threads() &&
           num_rows * dim >= kFloatsPerPart << (part_bits_ + 1)) {
      ++part_bits_;
    }
    const int64_t parts = int64_t{1} << part_bits_;
    std::atomic<int64_t> first_wrong{num_rows};
    pf.Run(parts, 1 + num_rows * (4 + dim / 4) / parts, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t wrong = BuildPart(part, (num_places >> part_bits_) + 1, place_of);
        int64_t lowest = first_wrong.load();
        while (wrong < lowest && !first_wrong.compare_exchange_weak(lowest, wrong)) {
        }
      }
    });
    const int64_t wrong = first_wrong.load();
    if (wrong == num_rows) return {static_cast<int64_t>(matrices_.size()), 0};
    const int64_t matrix = std::upper_bound(starts_.begin(), starts_.end(), wrong) - starts_.begin() - 1;
    return {matrix, wrong - starts_[matrix]};
  }

  // In place of Build, where row k of `grads` is the only gradient of place k: nothing need be read then, which is a
  // tenth of an update at dim 16.
  void Borrow(const float* grads, int64_t dim) {
    in_order_ = grads;
    dim_ = dim;
  }

  // The gradient of a place, dim floats; null if it has none.
  const float* Of(int64_t place) const {
    if (in_order_ != nullptr) return in_order_ + place * dim_;
    const Part& part = parts_[place & ((1 << part_bits_) - 1)];
    const uint32_t source = part.sources[place >> part_bits_];
    if (source == kNone) return nullptr;
    return source < kSum ? GradOf(source) : part.sums.data() + (source - kSum) * dim_;
  }

 private:
  // Rows of all matrices are numbered through, and each matrix starts at a multiple of 64: so the number of a row leads
  // to its matrix by one look into a short array.
  static constexpr int kStartBits = 6;
  static int64_t NextStart(int64_t row) { return (row + (1 << kStartBits) - 1) >> kStartBits << kStartBits; }
  struct Base {
    const float* grads;
    int64_t start;
  };
  const float* GradOf(uint32_t row) const {
    const Base& base = bases_[row >> kStartBits];
    return base.grads + (row - base.start) * dim_;
  }

  // What a place's gradient is: nothing, a row of a matrix, or a row of the part's sums.
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kSum = uint32_t{1} << 31;

  static constexpr int kMaxPartBits = 3;              // Every part reads all codes, at 1 ns each.
  static constexpr int64_t kFloatsPerPart = 1 << 17;  // Fewer are not worth a thread.
  static constexpr int64_t kBlock = 1024;
  static constexpr int64_t kAhead = 8;
  static constexpr int64_t kLine = 16;

  // The places that end in the part's number.
  struct Part {
    std::unique_ptr<uint32_t[]> sources;  // By place >> part_bits_.
    ScratchArray<float> sums;
  };

  // Calls visit(rows, places, n) for the rows of a part, block by block; places are shifted. Returns the first row
  // whose place is wrong, or the end of all rows.
  template <class PlaceOf, class Visit>
  int64_t ForRowsOfPart(int64_t part, PlaceOf place_of, Visit visit) const {
    const int64_t mask = (1 << part_bits_) - 1;
    int64_t wrong = end_of_rows();
    uint32_t rows[kBlock], places[kBlock];
    int64_t n = 0;
    for (size_t m = 0; m < matrices_.size(); ++m) {
      for (int64_t row = 0; row < matrices_[m].num_rows; ++row) {
        const int64_t place = place_of(m, row);
        rows[n] = static_cast<uint32_t>(starts_[m] + row);
        places[n] = static_cast<uint32_t>(place >> part_bits_);
        n += place >= 0 && (place & mask) == part;
        if (place == kWrongPlace) wrong = std::min(wrong, starts_[m] + row);
        if (n < kBlock) continue;
        visit(rows, places, n);
        n = 0;
      }
    }
    visit(rows, places, n);
    return wrong;
  }

  template <class PlaceOf>
  int64_t BuildPart(int64_t number, int64_t num_places, PlaceOf place_of) {
    Part& part = parts_[number];
    part.sources.reset(new uint32_t[num_places]);
    std::memset(part.sources.get(), 0xff, num_places * sizeof(uint32_t));
    uint32_t num_sums = 0;
    const int64_t wrong = ForRowsOfPart(number, place_of, [&](const uint32_t* rows, const uint32_t* places, int64_t n) {
      for (int64_t k = 0; k < n; ++k) {  // Without branches: whether a key was seen before cannot be predicted.
        uint32_t& source = part.sources[places[k]];
        const bool first = source == kNone, second = source < kSum;
        const uint32_t sum = second ? kSum + num_sums : source;
        num_sums += second;
        source = first ? rows[k] : sum;
      }
    });
    if (wrong != end_of_rows() || num_sums == 0) return wrong;
    part.sums = ScratchArray<float>(num_sums * dim_);
    DispatchDim(dim_, [&](auto dim) {
      ForRowsOfPart(number, place_of, [&](const uint32_t* rows, const uint32_t* places, int64_t n) {
        AddToSums<dim.value>(part, rows, places, n);
      });
    });
    return wrong;
  }

  // Adds the rows whose place has several to its sum. kDim: DispatchDim's.
  template <int64_t kDim>
  void AddToSums(const Part& part, const uint32_t* rows, const uint32_t* places, int64_t n) const {
    const int64_t dim = kDim > 0 ? kDim : dim_;
    const float* grads[kBlock];
    float* sums[kBlock];
    int64_t m = 0;
    for (int64_t k = 0; k < n; ++k) {
      const uint32_t source = part.sources[places[k]];
      grads[m] = GradOf(rows[k]);
      sums[m] = part.sums.data() + int64_t{source & ~kSum} * dim;
      m += source >= kSum;
    }
    for (int64_t k = 0; k < m; ++k) {
      const int64_t ahead = std::min(m - 1, k + kAhead);
      const float* const grad = grads[k];
      float* const sum = sums[k];
      int64_t j = 0;
      for (; j + kLine <= dim; j += kLine) {
        FetchLine(grads[ahead] + j);
        FetchLine(sums[ahead] + j);
        for (int64_t i = j; i < j + kLine; i += 8) {
          _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), _mm256_loadu_ps(grad + i)));
        }
      }
      if (j == dim) continue;
      FetchLine(grads[ahead] + j);
      FetchLine(sums[ahead] + j);
      for (; j < dim; ++j) sum[j] += grad[j];
    }
  }

  int64_t end_of_rows() const { return static_cast<int64_t>(bases_.size()) << kStartBits; }

  std::vector<Matrix> matrices_;
  std::vector<int64_t> starts_;  // Of each matrix, in the numbers of rows.
  std::vector<Base> bases_;      // By row >> kStartBits: the matrix that the row is in.
  const float* in_order_ = nullptr;
  int64_t dim_ = 0;
  int part_bits_ = 0;
  Part parts_[1 << kMaxPartBits];
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_SUMS_H_
