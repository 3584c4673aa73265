// Pooling as bodies for the GPU: a unit is one column of a row of the batch, or of an embedding for the gradient.
#ifndef TF_BOOSTER_CC_CORE_POOLING_POOLING_BODY_H_
#define TF_BOOSTER_CC_CORE_POOLING_POOLING_BODY_H_

#include <cmath>
#include <vector>

#include "cc/core/gpu/row_groups.h"
#include "cc/core/pooling/pooling_gpu.h"
#include "cc/core/pooling/weighted_pooling.h"

namespace tf_booster {
namespace gpu {

// The places of a row, cut to those that there are.
struct Places {
  int64_t begin, end;
};
template <class T>
TFB_HOST_DEVICE Places PlacesOf(const PoolJob<T>& job, int64_t row) {
  const int64_t first = job.segments.row_splits[row], last = job.segments.row_splits[row + 1];
  const int64_t begin = first < 0 ? 0 : Min(first, job.ids);
  return {begin, last < begin ? begin : Min(last, job.ids)};
}

// One column of the embeddings of a row.
template <class T>
struct Column {
  const PoolJob<T>& job;
  int64_t begin, column;
  TFB_HOST_DEVICE T operator()(int64_t i) const {
    const int64_t at = job.segments.idx[begin + i];
    return at >= 0 && at < job.segments.distinct ? job.in[at * job.segments.dim + column] : T(0);
  }
  TFB_HOST_DEVICE T weight(int64_t i) const { return static_cast<T>(job.segments.weights[begin + i]); }
};

// As PoolRow in segment_pooling.cc, on one column.
template <class T>
TFB_HOST_DEVICE T PoolColumn(const Column<T>& in, int64_t n, Combiner combiner) {
  if (n == 0) return T(0);
  T sum = in(0);
  if (n == 1) return sum;
  const int64_t first = (n & 7) < 2 ? (n & 7) + 8 : n & 7;
  for (int64_t i = 1; i < first; ++i) sum += in(i);
  const T divisor =
      combiner == Combiner::kSqrtN ? static_cast<T>(std::sqrt(static_cast<double>(n))) : static_cast<T>(n);
  if (combiner != Combiner::kSum && n < 10) sum *= T(1) / divisor;
  for (int64_t i = first; i < n; i += 8) {
    T block = in(i);
    for (int64_t j = 1; j < 8; ++j) block += in(i + j);
    sum += block;
  }
  if (combiner != Combiner::kSum && n >= 10) sum /= divisor;
  return sum;
}

// As PoolWeightedRow, on one column.
template <class T>
TFB_HOST_DEVICE T PoolWeightedColumn(const Column<T>& in, int64_t n, Combiner combiner) {
  constexpr int64_t kVector = kEigenVectorBytes / static_cast<int64_t>(sizeof(T));
  T sum(0);
  if (n == 1) {
    sum = in(0) * in.weight(0);
  } else if (n >= kEigenUnrolledRows && in.column < in.job.segments.dim / kVector * kVector) {
    const int64_t unrolled = n / 4 * 4;
    T sums[4] = {};
    for (int64_t i = 0; i < unrolled; i += 4) {
      for (int k = 0; k < 4; ++k) sums[k] += in(i + k) * in.weight(i + k);
    }
    sum = ((sums[0] + sums[1]) + sums[2]) + sums[3];
    for (int64_t i = unrolled; i < n; ++i) sum += in(i)*in.weight(i);
  } else {
    for (int64_t i = 0; i < n; ++i) sum += in(i)*in.weight(i);
  }
  if (combiner == Combiner::kSum) return sum;
  const T divisor = WeightDivisor<T>(in.job.segments.weights + in.begin, n, combiner);
  return divisor == T(0) ? T(0) : sum / divisor;
}

template <class T>
struct PoolUnits {
  PoolJob<T> job;
  int64_t units;
};

struct PoolUnit {
  template <class T>
  TFB_HOST_DEVICE void operator()(const PoolUnits<T>& units, int64_t unit) const {
    const PoolJob<T>& job = units.job;
    const PoolingSegments& s = job.segments;
    const int64_t row = unit / s.dim, column = unit - row * s.dim;
    T sum(0);
    if (s.zero_rows == nullptr || !s.zero_rows[row]) {
      const Places places = PlacesOf(job, row);
      const Column<T> in = {job, places.begin, column};
      const int64_t n = places.end - places.begin;
      sum = s.weights != nullptr ? PoolWeightedColumn(in, n, s.combiner) : PoolColumn(in, n, s.combiner);
    }
    job.out[unit] = sum;
  }
};

template <class Queue, class T>
void PoolOnQueue(Queue& queue, const std::vector<PoolJob<T>>& jobs) {
  std::vector<PoolUnits<T>> units;
  for (const auto& job : jobs) units.push_back({job, job.segments.rows * job.segments.dim});
  ForEachUnit(queue, units, PoolUnit());
}

// What the gradient wants to know of its lookup.
template <class T>
struct GradientUnits {
  PoolJob<T> job;
  RowGroups groups;  // The places of each embedding.
  int32_t* row_of;   // [ids]: the row of a place.
  T* factors;        // [rows]: what a row's gradient is multiplied by, or divided by if there are weights.
  T* partials;       // [NumPieces, dim]
  int64_t units;

  // What a place adds to a column of its embedding.
  struct Term {
    const GradientUnits& units;
    int64_t column;
    TFB_HOST_DEVICE T operator()(int64_t place) const {
      const PoolingSegments& s = units.job.segments;
      const int64_t row = units.row_of[place];
      const T grad = s.zero_rows != nullptr && s.zero_rows[row] ? T(0) : units.job.in[row * s.dim + column];
      const T factor = units.factors[row];
      if (s.weights == nullptr) return grad * factor;
      const T scaled = s.combiner == Combiner::kSum ? grad : factor == T(0) ? T(0) : grad / factor;
      return T(0) + scaled * static_cast<T>(s.weights[place]);
    }
  };
};

// Unit: a place.
struct FindRow {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t place) const {
    const int32_t* splits = units.job.segments.row_splits;
    int64_t low = 0, high = units.job.segments.rows;  // The last row that begins at or before the place.
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (splits[middle] <= place ? low : high) = middle;
    }
    units.row_of[place] = static_cast<int32_t>(low);
  }
};

// Unit: a row.
struct FindFactor {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t row) const {
    const PoolingSegments& s = units.job.segments;
    const Places places = PlacesOf(units.job, row);
    const int64_t n = places.end - places.begin;
    T factor(1);
    if (s.weights != nullptr) {
      factor = WeightDivisor<T>(s.weights + places.begin, n, s.combiner);
    } else if (n > 1 && s.combiner == Combiner::kMean) {
      factor = static_cast<T>(1.0 / static_cast<double>(n));
    } else if (n > 1 && s.combiner == Combiner::kSqrtN) {
      factor = static_cast<T>(1.0 / std::sqrt(static_cast<double>(n)));
    }
    units.factors[row] = factor;
  }
};

// Unit: a column of a block of 64 places.
struct SumGradientPieces {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t unit) const {
    const int64_t dim = units.job.segments.dim, block = unit / dim, column = unit - block * dim;
    const int64_t piece = LaterPiece(units.groups, block);
    if (piece < 0) return;
    units.partials[unit] = SumOfPiece<T>(units.groups, piece, typename GradientUnits<T>::Term{units, column});
  }
};

// Unit: a column of an embedding.
struct GradientUnit {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t unit) const {
    const int64_t dim = units.job.segments.dim, embedding = unit / dim, column = unit - embedding * dim;
    const int32_t head = units.groups.head_of[embedding];
    const typename GradientUnits<T>::Term term = {units, column};
    units.job.out[unit] =
        head == 0 ? T(0) : SumOfRow<T>(units.groups, head - 1, term, PartialAt<T>{units.partials + column, dim});
  }
};

// With a null queue it only takes its memory from `scratch`.
template <class Queue, class T>
void PoolGradientOnQueue(Queue* queue, const std::vector<PoolJob<T>>& jobs, Scratch* scratch) {
  std::vector<RowNumbers<int32_t>> numbers;
  // A lookup without rows has no gradient, whatever its idx.
  for (const auto& job : jobs) {
    numbers.push_back({job.segments.idx, job.segments.rows > 0 ? job.ids : 0, job.segments.distinct});
  }
  const std::vector<RowGroups> groups = GroupRows(queue, numbers, true, scratch);
  std::vector<GradientUnits<T>> all;
  for (size_t i = 0; i < jobs.size(); ++i) {
    GradientUnits<T> units = {jobs[i], groups[i], nullptr, nullptr, nullptr, 0};
    units.row_of = scratch->Take<int32_t>(groups[i].size);
    units.factors = scratch->Take<T>(jobs[i].segments.rows);
    units.partials = scratch->Take<T>(NumPieces(groups[i].size) * jobs[i].segments.dim);
    all.push_back(units);
  }
  if (queue == nullptr) return;
  const auto run = [&](const auto& count, const auto& body) {
    for (auto& units : all) units.units = count(units);
    ForEachUnit(*queue, all, body);
  };
  run([](const auto& u) { return u.groups.size; }, FindRow());
  run([](const auto& u) { return u.job.segments.rows; }, FindFactor());
  run([](const auto& u) { return CeilDiv(u.groups.size, kPiece) * u.job.segments.dim; }, SumGradientPieces());
  run([](const auto& u) { return u.job.segments.distinct * u.job.segments.dim; }, GradientUnit());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_POOLING_BODY_H_
