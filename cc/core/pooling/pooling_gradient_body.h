// The gradient of pooling as bodies for the GPU: a unit is 16 bytes of an embedding where all rows are aligned to that,
// else one column.
#ifndef TF_BOOSTER_CC_CORE_POOLING_POOLING_GRADIENT_BODY_H_
#define TF_BOOSTER_CC_CORE_POOLING_POOLING_GRADIENT_BODY_H_

#include <cmath>
#include <vector>

#include "cc/core/gpu/row_sums.h"
#include "cc/core/pooling/pooling_body.h"

namespace tf_booster {
namespace gpu {

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
  T* partials;      // [NumPartials, dim]
  bool packed;
  int64_t units;

  template <class V>
  TFB_HOST_DEVICE PartialAt<V> PartialsOf(int64_t column) const {
    return {reinterpret_cast<V*>(partials + column), job.segments.dim / V::kSize, WindowsOf(groups.size)};
  }
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
    V grad = *reinterpret_cast<const V*>(units.job.in + at.row * units.job.step() + column);
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

// Unit: columns of a place of partial sums. Sums the pieces of embeddings with many places, or the blocks of these.
template <bool kBlocks>
struct SumGradientPartials {
  template <class T>
  TFB_HOST_DEVICE void operator()(const GradientUnits<T>& units, int64_t unit) const {
    RunColumns<T>(units.packed, units.job.segments.dim, unit, [&](auto columns, int64_t place, int64_t column) {
      using V = decltype(columns);
      StorePartial<kBlocks>(units.groups, units.groups, place, PlaceTerm<V>{units, column},
                            units.template PartialsOf<V>(column));
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
      V sum = {};
      if (head != 0) {
        sum = SumOfRow<V>(units.groups, head - 1, PlaceTerm<V>{units, column}, units.template PartialsOf<V>(column));
      }
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
    units.partials = scratch->Take<T>(NumPartials(groups[i].size) * jobs[i].segments.dim);
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
  const auto columns = [](const auto& u, int64_t rows) { return rows * UnitsOfRow<T>(u.packed, u.job.segments.dim); };
  run([&](const auto& u) { return columns(u, PieceUnits(u.groups.size)); }, SumGradientPartials<false>());
  run([&](const auto& u) { return columns(u, BlockUnits(u.groups.size)); }, SumGradientPartials<true>());
  run([&](const auto& u) { return columns(u, u.job.segments.distinct); }, GradientUnit());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_POOLING_GRADIENT_BODY_H_
