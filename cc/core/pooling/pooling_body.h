// Pooling as a body for the GPU: a unit is 16 bytes of a row of the batch where all rows are aligned to that, else one
// column.
#ifndef TF_BOOSTER_CC_CORE_POOLING_POOLING_BODY_H_
#define TF_BOOSTER_CC_CORE_POOLING_POOLING_BODY_H_

#include <cmath>
#include <vector>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"
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
  return (job.segments.dim | job.step()) % Pack<T>::kSize == 0 && IsPackAligned(job.in) && IsPackAligned(job.out);
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
      StorePack(reinterpret_cast<V*>(job.out + row * job.step() + column), sum);
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

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_POOLING_BODY_H_
