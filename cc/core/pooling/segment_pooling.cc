#include "cc/core/pooling/segment_pooling.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/base/job_ranges.h"
#include "cc/core/base/lines_ahead.h"
#include "cc/core/pooling/weighted_pooling.h"

namespace tf_booster {
namespace {

constexpr int64_t kColumns = 64;    // Columns that one block sum on the stack has.
constexpr int64_t kTogether = 64;   // Rows of all jobs in turn, where they lie beside each other.
constexpr int64_t kRowsAhead = 16;  // Rows that are fetched before they are needed.
// Cache lines of embeddings that are, where those are far apart. 24, 48 and 96 of random rows, one thread of Zen 4: 31,
// 24 and 25 ns an id at dim 16 with one id a row; with 20, 17, 14 and 14 at dim 16, and 72, 67 and 67 at dim 64.
constexpr int64_t kLinesAhead = 48;

template <class T>
inline void AddTo(T* __restrict out, const T* __restrict in, int64_t n) {
  for (int64_t d = 0; d < n; ++d) out[d] += in[d];
}

// out += in * scale. As a plain loop GCC 12 made the gradients of 38 lookups of 8 or 16 columns 2.3 times as slow.
template <int64_t kDim, class T>
inline void AddScaled(T* __restrict out, const T* __restrict in, T scale, int64_t any_dim) {
  if constexpr (kDim * sizeof(T) >= 32) {
    typedef T Lanes __attribute__((vector_size(32), aligned(4), may_alias));
    for (int64_t d = 0; d < kDim; d += 32 / sizeof(T)) {
      Lanes& sum = *reinterpret_cast<Lanes*>(out + d);
      sum = sum + *reinterpret_cast<const Lanes*>(in + d) * scale;
    }
  } else {
    const int64_t dim = kDim > 0 ? kDim : any_dim;
    for (int64_t d = 0; d < dim; ++d) out[d] += in[d] * scale;
  }
}

// Without a call, which would cost as much as the rest.
template <int64_t kDim, class T>
inline void CopyRow(T* __restrict out, const T* __restrict in, int64_t any_dim) {
  constexpr int64_t kVector = 32 / sizeof(T);
  if constexpr (kDim > 0) {
    std::memcpy(out, in, kDim * sizeof(T));
  } else if (any_dim < kVector || any_dim > 8 * kVector) {
    std::copy_n(in, any_dim, out);  // Of no columns both may be null.
  } else {
    // The last vector may overlap the one before.
    for (int64_t d = 0; d < any_dim - kVector; d += kVector) std::memcpy(out + d, in + d, 32);
    std::memcpy(out + any_dim - kVector, in + any_dim - kVector, 32);
  }
}

// TensorFlow adds in blocks: first the 2 to 9 rows that leave a multiple of 8, then 8 at a time, each block summed up
// by itself. Up to 9 rows are multiplied by the reciprocal of the count, more are divided by it. kDim: DispatchDim's.
template <int64_t kDim, class T, class Index>
void PoolRow(const T* embeddings, int64_t any_dim, const Index* idx, int64_t n, Combiner combiner, T* out) {
  const int64_t dim = kDim > 0 ? kDim : any_dim;
  if (n == 0) {
    std::fill(out, out + dim, T(0));
    return;
  }
  const auto row = [&](int64_t i) { return embeddings + int64_t{idx[i]} * dim; };
  CopyRow<kDim>(out, row(0), dim);
  if (n == 1) return;
  const int64_t first = (n & 7) < 2 ? (n & 7) + 8 : n & 7;
  for (int64_t i = 1; i < first; ++i) AddTo(out, row(i), dim);
  const T divisor =
      combiner == Combiner::kSqrtN ? static_cast<T>(std::sqrt(static_cast<double>(n))) : static_cast<T>(n);
  if (combiner != Combiner::kSum && n < 10) {
    const T scale = T(1) / divisor;
    for (int64_t d = 0; d < dim; ++d) out[d] *= scale;
  }
  T block[kDim > 0 ? std::min(kDim, kColumns) : kColumns];
  for (int64_t i = first; i < n; i += 8) {
    for (int64_t begin = 0; begin < dim; begin += kColumns) {
      const int64_t columns = std::min(kColumns, dim - begin);
      for (int64_t d = 0; d < columns; ++d) block[d] = row(i)[begin + d];
      for (int64_t j = 1; j < 8; ++j) AddTo(block, row(i + j) + begin, columns);
      AddTo(out + begin, block, columns);
    }
  }
  if (combiner != Combiner::kSum && n >= 10) {
    for (int64_t d = 0; d < dim; ++d) out[d] /= divisor;
  }
}

// The gradients of the embeddings [begin, end) of one lookup, place by place. TensorFlow copies the first at a place,
// which keeps the sign of a zero; so does adding it to -0, and without a branch that ids decide.
template <int64_t kDim, class T>
void GradientRange(const PoolingGradientJob<T>& job, int64_t begin, int64_t end) {
  const PoolingSegments& s = job.segments;
  const int64_t dim = kDim > 0 ? kDim : s.dim;
  std::vector<uint8_t> seen(end - begin, 0);
  std::fill(job.gradient + begin * dim, job.gradient + end * dim, T(-0.0));
  const std::vector<T> zeros(s.zero_rows != nullptr ? dim : 0, T(0));
  const int64_t step = job.step();
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t n = s.row_splits[r + 1] - s.row_splits[r];
    const T* __restrict in = s.zero_rows != nullptr && s.zero_rows[r] ? zeros.data() : job.pooled_gradient + r * step;
    // The processor's prefetchers follow packed rows, but not some columns of a wide matrix.
    if (step != dim) {
      __builtin_prefetch(in + kRowsAhead * step);
      __builtin_prefetch(in + kRowsAhead * step + dim - 1);
    }
    T scale(1);
    if (n > 1 && s.combiner == Combiner::kMean) scale = static_cast<T>(1.0 / static_cast<double>(n));
    if (n > 1 && s.combiner == Combiner::kSqrtN) scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(n)));
    for (int64_t i = s.row_splits[r]; i < s.row_splits[r + 1]; ++i) {
      const int64_t place = s.idx[i];
      if (place < begin || place >= end) continue;
      seen[place - begin] = 1;
      AddScaled<kDim>(job.gradient + place * dim, in, scale, dim);
    }
  }
  for (int64_t place = begin; place < end; ++place) {
    if (!seen[place - begin]) std::fill(job.gradient + place * dim, job.gradient + (place + 1) * dim, T(0));
  }
}

// A row of 16 floats from memory takes some 10 ns, one from the cache less.
int64_t NsOf(const PoolingSegments& s) { return (s.row_splits[s.rows] + s.rows) * (4 + s.dim / 3); }

template <class Jobs>
JobRanges Ranges(const Jobs& jobs, bool of_rows) {
  std::vector<int64_t> units;
  int64_t total_ns = 0;
  for (const auto& job : jobs) {
    const PoolingSegments& s = job.segments;
    units.push_back(of_rows ? s.rows : s.distinct);
    total_ns += NsOf(s);
  }
  return JobRanges(units, total_ns);
}

// Fetches embeddings some places ahead of those that are summed up.
template <class T, class Index>
class EmbeddingsAhead {
 public:
  // goes_on: the rows before `first_row` had their turn not long ago, and have fetched its first places.
  EmbeddingsAhead(const PoolingJob<T>& job, const Index* idx, int64_t first_row, bool goes_on)
      : job_(job),
        idx_(idx),
        row_bytes_(job.segments.dim * static_cast<int64_t>(sizeof(T))),
        places_ahead_(std::max<int64_t>(4, kLinesAhead * 64 / std::max<int64_t>(64, row_bytes_))),
        places_(job.segments.row_splits[job.segments.rows]),
        next_(std::min(places_, job.segments.row_splits[first_row] + (goes_on ? places_ahead_ : 0))) {}

  // Before the places up to `end` are summed up.
  TFB_FETCHES void Fetch(int64_t end) {
    for (const int64_t last = std::min(places_, end + places_ahead_); next_ < last; ++next_) {
      const char* const row = reinterpret_cast<const char*>(job_.embeddings) + int64_t{idx_[next_]} * row_bytes_;
      const char* line = row - reinterpret_cast<uintptr_t>(row) % 64;  // A row need not begin with a line.
      for (; line < row + row_bytes_; line += 64) FetchLine(line);
    }
  }

 private:
  const PoolingJob<T>& job_;
  const Index* const idx_;
  const int64_t row_bytes_, places_ahead_, places_;
  int64_t next_;
};

// The rows [begin, end) of one lookup. goes_on: as of EmbeddingsAhead.
template <class T, class Index>
void PoolRange(const PoolingJob<T>& job, const Index* all_idx, int64_t begin, int64_t end, bool goes_on) {
  const PoolingSegments& s = job.segments;
  const int64_t step = job.step();
  EmbeddingsAhead<T, Index> ahead(job, all_idx, begin, goes_on);
  DispatchDim(s.dim, [&](auto constant) {
    for (int64_t r = begin; r < end; ++r) {
      if (job.far_apart && s.dim > 0) ahead.Fetch(s.row_splits[r + 1]);
      T* out = job.pooled + r * step;
      if (step != s.dim) {
        __builtin_prefetch(out + kRowsAhead * step, 1);
        __builtin_prefetch(out + kRowsAhead * step + s.dim - 1, 1);
      }
      const Index* idx = all_idx + s.row_splits[r];
      const int64_t n = s.row_splits[r + 1] - s.row_splits[r];
      if (s.zero_rows != nullptr && s.zero_rows[r]) {
        std::fill(out, out + s.dim, T(0));
      } else if (s.weights != nullptr) {
        PoolWeightedRow(job.embeddings, s.dim, idx, s.weights + s.row_splits[r], n, s.combiner, out);
      } else {
        PoolRow<decltype(constant)::value>(job.embeddings, s.dim, idx, n, s.combiner, out);
      }
    }
  });
}

template <class T>
void PoolRange(const PoolingJob<T>& job, int64_t begin, int64_t end, bool goes_on = false) {
  if (job.wide_idx != nullptr) return PoolRange(job, job.wide_idx, begin, end, goes_on);
  PoolRange(job, job.segments.idx, begin, end, goes_on);
}

// Without an early end, and without a sign, so that one below 0 is large: a loop of vectors, 0.1 ns an id of 32 bits.
template <class Index>
bool AllInside(const Index* idx, int64_t ids, int64_t distinct) {
  using Unsigned = std::make_unsigned_t<Index>;
  Unsigned most = 0;
  for (int64_t i = 0; i < ids; ++i) most = std::max(most, static_cast<Unsigned>(idx[i]));
  return ids == 0 || static_cast<uint64_t>(most) < static_cast<uint64_t>(distinct);
}

template <class Index>
int64_t FirstOutside(const Index* idx, int64_t ids, int64_t distinct) {
  if (AllInside(idx, ids, distinct)) return -1;
  return std::find_if(idx, idx + ids, [&](Index id) { return id < 0 || id >= distinct; }) - idx;
}

}  // namespace

template <class T>
void Pool(const std::vector<PoolingJob<T>>& jobs, ParallelFor& pf) {
  Ranges(jobs, true).Run(pf, [&](size_t j, int64_t begin, int64_t end) { PoolRange(jobs[j], begin, end); });
}

template <class T>
void PoolByRows(const std::vector<PoolingJob<T>>& jobs, ParallelFor& pf, FunctionRef<void(int64_t, int64_t)> also) {
  if (jobs.empty()) return;
  const int64_t rows = jobs[0].segments.rows;
  int64_t total_ns = 0;
  for (const auto& job : jobs) total_ns += NsOf(job.segments);
  pf.Run(rows, total_ns / std::max<int64_t>(1, rows) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kTogether) {
      const int64_t last = std::min(first + kTogether, end);
      for (const auto& job : jobs) PoolRange(job, first, last, first > begin);
      also(first, last);
    }
  });
}

template <class T>
void PoolGradient(const std::vector<PoolingGradientJob<T>>& jobs, ParallelFor& pf) {
  Ranges(jobs, false).Run(pf, [&](size_t j, int64_t begin, int64_t end) {
    if (jobs[j].segments.weights != nullptr) {
      WeightedGradientRange(jobs[j], begin, end);
    } else {
      DispatchDim(jobs[j].segments.dim,
                  [&](auto constant) { GradientRange<decltype(constant)::value>(jobs[j], begin, end); });
    }
  });
}

bool CheckSplits(const PoolingSegments& s, int64_t ids) {
  if (s.row_splits[0] != 0 || s.row_splits[s.rows] != ids) return false;
  int32_t falls = 0;
  for (int64_t r = 0; r < s.rows; ++r) falls |= s.row_splits[r] > s.row_splits[r + 1] ? 1 : 0;
  return falls == 0;
}

int64_t PlaceOutside(const PoolingSegments& s, const int64_t* wide_idx, int64_t ids) {
  return wide_idx != nullptr ? FirstOutside(wide_idx, ids, s.distinct) : FirstOutside(s.idx, ids, s.distinct);
}

bool CheckSegments(const PoolingSegments& s, int64_t ids) {
  return CheckSplits(s, ids) && AllInside(s.idx, ids, s.distinct);
}

#define TFB_POOLING(T)                                                                                               \
  template void Pool<T>(const std::vector<PoolingJob<T>>&, ParallelFor&);                                            \
  template void PoolByRows<T>(const std::vector<PoolingJob<T>>&, ParallelFor&, FunctionRef<void(int64_t, int64_t)>); \
  template void PoolGradient<T>(const std::vector<PoolingGradientJob<T>>&, ParallelFor&)
TFB_POOLING(float);
TFB_POOLING(double);
#undef TFB_POOLING

}  // namespace tf_booster
