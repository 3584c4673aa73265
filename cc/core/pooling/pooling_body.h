// Pooling as bodies for the GPU: a unit is 16 bytes of a row of the batch, or of an embedding for the
// gradient, where all rows are aligned to that, else one column.
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

// Columns of the embeddings of a row. V: Pack<T> or One<T>.
template <class V>
struct Columns {
  using T = typename V::Type;
  const PoolJob<T>& job;
  int64_t begin, column;

  TFB_HOST_DEVICE V operator()(int64_t i) const {
    V value;
    Load<1>(i, i + 1, &value);
    return value;
  }
  // Of embeddings i, i + 1, … below n. All indices are asked for, then all values: one after the other the card's
  // memory would be waited for twice for each.
  template <int kCount>
  TFB_HOST_DEVICE void Load(int64_t i, int64_t n, V* values) const {
    int32_t at[kCount];
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) at[j] = i + j < n ? job.segments.idx[begin + i + j] : -1;
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) {
      values[j] = V();
      if (at[j] >= 0 && at[j] < job.segments.distinct) {
        values[j] = *reinterpret_cast<const V*>(job.in + int64_t{at[j]} * job.segments.dim + column);
      }
    }
  }
  TFB_HOST_DEVICE T weight(int64_t i) const { return static_cast<T>(job.segments.weights[begin + i]); }

  // The same, each multiplied by its weight.
  template <int kCount>
  TFB_HOST_DEVICE void LoadWeighted(int64_t i, int64_t n, V* values) const {
    T weights[kCount];
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) weights[j] = i + j < n ? weight(i + j) : T(0);
    Load<kCount>(i, n, values);
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) values[j] *= weights[j];
  }
};

// sum += values[first], …, as many as there are below n.
template <int kCount, class V>
TFB_HOST_DEVICE void AddTo(V* sum, const V* values, int64_t n, int first = 0) {
  TFB_UNROLL
  for (int j = 0; j < kCount; ++j) {
    if (j >= first && j < n) *sum += values[j];
  }
}

// As PoolRow in segment_pooling.cc, on some columns.
template <class V>
TFB_HOST_DEVICE V PoolColumns(const Columns<V>& in, int64_t n, Combiner combiner) {
  using T = typename V::Type;
  if (n == 0) return V();
  const int64_t first = n == 1 ? 1 : (n & 7) < 2 ? (n & 7) + 8 : n & 7;
  V values[8];
  in.template Load<8>(0, first, values);
  V sum = values[0];
  if (n == 1) return sum;
  const V ninth = first > 8 ? in(8) : V();
  AddTo<8>(&sum, values, first, 1);
  if (first > 8) sum += ninth;
  const T divisor =
      combiner == Combiner::kSqrtN ? static_cast<T>(std::sqrt(static_cast<double>(n))) : static_cast<T>(n);
  if (combiner != Combiner::kSum && n < 10) sum *= T(1) / divisor;
  for (int64_t i = first; i < n; i += 8) {
    in.template Load<8>(i, n, values);
    V block = values[0];
    AddTo<8>(&block, values, 8, 1);
    sum += block;
  }
  if (combiner != Combiner::kSum && n >= 10) sum /= divisor;
  return sum;
}

// As PoolWeightedRow, on some columns. A pack does not reach over the end of those that fill Eigen's vectors.
template <class V>
TFB_HOST_DEVICE V PoolWeightedColumns(const Columns<V>& in, int64_t n, Combiner combiner) {
  using T = typename V::Type;
  constexpr int64_t kVector = kEigenVectorBytes / static_cast<int64_t>(sizeof(T));
  static_assert(kVector % V::kSize == 0, "");
  V sum = {}, values[4];
  int64_t i = 0;
  if (n == 1) {
    in.template LoadWeighted<1>(0, 1, &sum);
    i = 1;
  } else if (n >= kEigenUnrolledRows && in.column < in.job.segments.dim / kVector * kVector) {
    V sums[4] = {};
    for (; i < n / 4 * 4; i += 4) {
      in.template LoadWeighted<4>(i, n, values);
      TFB_UNROLL
      for (int k = 0; k < 4; ++k) sums[k] += values[k];
    }
    sum = sums[0];
    TFB_UNROLL
    for (int k = 1; k < 4; ++k) sum += sums[k];
  }
  for (; i < n; i += 4) {
    in.template LoadWeighted<4>(i, n, values);
    AddTo<4>(&sum, values, n - i);
  }
  if (combiner == Combiner::kSum) return sum;
  const T divisor = WeightDivisor<T>(in.job.segments.weights + in.begin, n, combiner);
  if (divisor == T(0)) return V();
  return sum /= divisor;
}

// Whether the rows of both sides consist of packs, and begin at multiples of their size.
template <class T>
bool CanPack(const PoolJob<T>& job) {
  return job.segments.dim % Pack<T>::kSize == 0 && IsPackAligned(job.in) && IsPackAligned(job.out);
}

template <class T>
struct PoolUnits {
  PoolJob<T> job;
  bool packed;
  int64_t units;
};

struct PoolUnit {
  template <class T>
  TFB_HOST_DEVICE void operator()(const PoolUnits<T>& units, int64_t unit) const {
    const PoolJob<T>& job = units.job;
    const PoolingSegments& s = job.segments;
    RunColumns<T>(units.packed, s.dim, unit, [&](auto columns, int64_t row, int64_t column) {
      using V = decltype(columns);
      V sum = {};
      if (s.zero_rows == nullptr || !s.zero_rows[row]) {
        const Places places = PlacesOf(job, row);
        const Columns<V> in = {job, places.begin, column};
        const int64_t n = places.end - places.begin;
        sum = s.weights != nullptr ? PoolWeightedColumns(in, n, s.combiner) : PoolColumns(in, n, s.combiner);
      }
      StorePack(reinterpret_cast<V*>(job.out + row * s.dim + column), sum);
    });
  }
};

template <class Queue, class T>
void PoolOnQueue(Queue& queue, const std::vector<PoolJob<T>>& jobs) {
  std::vector<PoolUnits<T>> units;
  for (const auto& job : jobs) {
    const bool packed = CanPack(job);
    units.push_back({job, packed, job.segments.rows * UnitsOfRow<T>(packed, job.segments.dim)});
  }
  ForEachUnit(queue, units, PoolUnit());
}

// The places of each embedding, and the rows of these: one load for what would take two that wait for each other.
struct SortedRows : RowGroups {
  int32_t* rows_at = nullptr;  // [ids]

  struct Position {
    uint64_t key;
    int64_t place;
    int64_t row;
  };
  TFB_HOST_DEVICE Position At(int64_t k) const { return {keys[k], place(k), rows_at[k]}; }
};

// What the gradient wants to know of its lookup.
template <class T>
struct GradientUnits {
  PoolJob<T> job;
  SortedRows groups;
  int32_t* row_of;  // [ids]: the row of a place.
  T* factors;       // [rows]: what a row's gradient is multiplied by, or divided by if there are weights.
  T* partials;      // [NumPieces, dim]
  bool packed;
  int64_t units;
};

// What a place adds to columns of its embedding.
template <class V>
struct PlaceTerm {
  using T = typename V::Type;
  const GradientUnits<T>& units;
  int64_t column;

  TFB_HOST_DEVICE V operator()(const SortedRows::Position& at) const {
    const PoolingSegments& s = units.job.segments;
    // All of a place are asked for before one is looked at.
    const bool zero = s.zero_rows != nullptr && s.zero_rows[at.row];
    V grad = *reinterpret_cast<const V*>(units.job.in + at.row * s.dim + column);
    const T factor = units.factors[at.row];
    if (zero) grad = V();
    if (s.weights == nullptr) return grad *= factor;
    if (s.combiner != Combiner::kSum) factor == T(0) ? grad = V() : grad /= factor;
    V term = {};
    return term += grad *= static_cast<T>(s.weights[at.place]);
  }
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

// Unit: a sorted position.
struct SortRows {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t k) const {
    units.groups.rows_at[k] = units.row_of[units.groups.place(k)];
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

// Unit: columns of a block of 64 places.
struct SumGradientPieces {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t unit) const {
    const int64_t dim = units.job.segments.dim;
    RunColumns<T>(units.packed, dim, unit, [&](auto columns, int64_t block, int64_t column) {
      using V = decltype(columns);
      const int64_t piece = LaterPiece(units.groups, block);
      if (piece < 0) return;
      StorePack(reinterpret_cast<V*>(units.partials + block * dim + column),
                SumOfPiece<V>(units.groups, piece, PlaceTerm<V>{units, column}));
    });
  }
};

// Unit: columns of an embedding.
struct GradientUnit {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t unit) const {
    const int64_t dim = units.job.segments.dim;
    RunColumns<T>(units.packed, dim, unit, [&](auto columns, int64_t embedding, int64_t column) {
      using V = decltype(columns);
      const int32_t head = units.groups.head_of[embedding];
      const PartialAt<V> partial = {reinterpret_cast<const V*>(units.partials + column), dim / V::kSize};
      V sum = {};
      if (head != 0) sum = SumOfRow<V>(units.groups, head - 1, PlaceTerm<V>{units, column}, partial);
      StorePack(reinterpret_cast<V*>(units.job.out + embedding * dim + column), sum);
    });
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
    GradientUnits<T> units = {jobs[i], {groups[i]}, nullptr, nullptr, nullptr, CanPack(jobs[i]), 0};
    units.groups.rows_at = scratch->Take<int32_t>(groups[i].size);
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
  run([](const auto& u) { return u.groups.size; }, SortRows());
  run([](const auto& u) { return u.job.segments.rows; }, FindFactor());
  run([](const auto& u) { return CeilDiv(u.groups.size, kPiece) * UnitsOfRow<T>(u.packed, u.job.segments.dim); },
      SumGradientPieces());
  run([](const auto& u) { return u.job.segments.distinct * UnitsOfRow<T>(u.packed, u.job.segments.dim); },
      GradientUnit());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_POOLING_BODY_H_
