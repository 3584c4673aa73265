// One gradient for each key: its only one, borrowed, or the sum of several in the order of their occurrence. Gradients
// come in several matrices, one for each lookup's.
//
// Gradients are read in the order in which they lie in memory, and only those of keys that have several; the sums that
// they are added to mostly stay in the caches. (Visiting the gradients key by key instead took three times as long:
// each was a cache miss and a TLB miss.) All is done in one pass over the codes: a key's second gradient makes its sum,
// out of the first one, which is fetched once more. (With a pass that finds out who needs a sum, and sums that start
// from zeros, an update by Zipf's law took 29.0, 60.6 and 95 ns an id at dims 16, 64 and 128 in place of 24.9, 53.9 and
// 89.) With several threads each takes some of the keys, whole: the bits do not depend on how many.
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
    while ((dim << (sum_bits_ + 1)) <= kPieceFloats && (1 << sum_bits_) < num_places) ++sum_bits_;
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
    return source < kSum ? GradOf(source) : part.Sum(source - kSum, sum_bits_, dim_);
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
  static constexpr int64_t kPieceFloats = 1 << 19;    // 2 MiB of sums are taken at a time, one huge page.
  static constexpr int64_t kBlock = 1024;
  static constexpr int64_t kLine = 16;
  // Gradients are fetched so far ahead, two pages of 4 KiB: the processor's own prefetchers stop at the end of each. An
  // addition at dim 64 takes 30, 25, 21, 19 and 16 ns with 0.5, 1, 2, 4 and 8 KiB, at dim 16 6.2 to 4.8; into the
  // first-level cache 27 whatever the distance.
  static constexpr int64_t kBytesAhead = 8192;
  static constexpr int64_t kMaxRowsAhead = 128;

  // The places that end in the part's number.
  struct Part {
    std::unique_ptr<uint32_t[]> sources;      // By place >> part_bits_.
    std::vector<ScratchArray<float>> pieces;  // Of 1 << sum_bits_ sums each.
    uint32_t num_sums = 0;

    float* Sum(uint32_t sum, int sum_bits, int64_t dim) const {
      return pieces[sum >> sum_bits].data() + int64_t{sum & ((1u << sum_bits) - 1)} * dim;
    }
  };

  // Calls visit(rows, places, n) for the rows of a part, block by block; places are shifted. Returns the first row
  // whose place is wrong, or the end of all rows.
  template <class PlaceOf, class Visit>
  int64_t ForRowsOfPart(int64_t part, PlaceOf place_of, Visit visit) const {
    const int part_bits = part_bits_;
    const int64_t mask = (1 << part_bits) - 1;
    int64_t wrong = end_of_rows();
    uint32_t rows[kBlock], places[kBlock];
    int64_t n = 0;
    for (size_t m = 0; m < matrices_.size(); ++m) {
      const int64_t start = starts_[m], num_rows = matrices_[m].num_rows;
      for (int64_t row = 0; row < num_rows; ++row) {
        const int64_t place = place_of(m, row);
        rows[n] = static_cast<uint32_t>(start + row);
        places[n] = static_cast<uint32_t>(place >> part_bits);
        n += place >= 0 && (place & mask) == part;
        if (place == kWrongPlace) wrong = std::min(wrong, start + row);
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
    int64_t wrong = 0;
    DispatchDim(dim_, [&](auto dim) {
      wrong = ForRowsOfPart(number, place_of, [&](const uint32_t* rows, const uint32_t* places, int64_t n) {
        AddRows<dim.value>(&part, rows, places, n);
      });
    });
    return wrong;
  }

  // Notes the first row of each place, and adds those that follow. kDim: DispatchDim's.
  template <int64_t kDim>
  void AddRows(Part* part, const uint32_t* rows, const uint32_t* places, int64_t n) const {
    uint32_t added[kBlock], before[kBlock], sums[kBlock];
    uint32_t num_sums = part->num_sums;
    int64_t m = 0;
    for (int64_t k = 0; k < n; ++k) {  // Without branches: whether a key was seen before cannot be predicted.
      uint32_t& source = part->sources[places[k]];
      const uint32_t old = source;
      const bool first = old == kNone, second = old < kSum;
      const uint32_t sum = second ? kSum + num_sums : old;
      num_sums += second;
      source = first ? rows[k] : sum;
      added[m] = rows[k];
      before[m] = old;
      sums[m] = sum & ~kSum;
      m += !first;
    }
    part->num_sums = num_sums;
    while (int64_t{num_sums} > static_cast<int64_t>(part->pieces.size()) << sum_bits_) {
      part->pieces.emplace_back(dim_ << sum_bits_, ScratchContents::kUndefined);
    }
    const int64_t dim = kDim > 0 ? kDim : dim_;
    const float *grads[kBlock], *terms[kBlock];
    float* targets[kBlock];
    for (int64_t k = 0; k < m; ++k) {
      grads[k] = GradOf(added[k]);
      targets[k] = part->Sum(sums[k], sum_bits_, dim);
      terms[k] = before[k] < kSum ? GradOf(before[k]) : targets[k];
    }
    AddEach<kDim>(grads, terms, targets, m);
  }

  // targets[k] = 0 + terms[k] + grads[k]; the zero makes of a term of -0 what a sum that starts from 0 has.
  template <int64_t kDim>
  void AddEach(const float* const* grads, const float* const* terms, float* const* targets, int64_t n) const {
    const int64_t dim = kDim > 0 ? kDim : dim_;
    const int64_t rows_ahead = std::clamp<int64_t>(kBytesAhead / (dim * sizeof(float)), 2, kMaxRowsAhead);
    const __m256 zero = _mm256_setzero_ps();
    for (int64_t k = 0; k < std::min(n, rows_ahead);
         ++k) {  // 0.5, 1.2 and 2 ns an id of a step at dims 16, 64 and 128.
      for (int64_t j = 0; j < dim; j += kLine) {
        FetchLine(grads[k] + j);
        FetchLine(terms[k] + j);
      }
    }
    for (int64_t k = 0; k < n; ++k) {
      const int64_t ahead = std::min(n - 1, k + rows_ahead);
      const float *const grad = grads[k], *const term = terms[k];
      float* const target = targets[k];
      int64_t j = 0;
      for (; j + kLine <= dim; j += kLine) {
        FetchLine(grads[ahead] + j);
        FetchLine(terms[ahead] + j);
        for (int64_t i = j; i < j + kLine; i += 8) {
          const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(term + i), zero);
          _mm256_storeu_ps(target + i, _mm256_add_ps(sum, _mm256_loadu_ps(grad + i)));
        }
      }
      if (j == dim) continue;
      FetchLine(grads[ahead] + j);
      FetchLine(terms[ahead] + j);
      for (; j < dim; ++j) target[j] = (term[j] + 0.0f) + grad[j];
    }
  }

  int64_t end_of_rows() const { return static_cast<int64_t>(bases_.size()) << kStartBits; }

  std::vector<Matrix> matrices_;
  std::vector<int64_t> starts_;  // Of each matrix, in the numbers of rows.
  std::vector<Base> bases_;      // By row >> kStartBits: the matrix that the row is in.
  const float* in_order_ = nullptr;
  int64_t dim_ = 0;
  int part_bits_ = 0;
  int sum_bits_ = 0;
  Part parts_[1 << kMaxPartBits];
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_SUMS_H_
