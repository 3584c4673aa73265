// Batch normalization as bodies for the GPU: a thread has a column, or four of them where all addresses allow it, of a
// part of the rows, so neighbouring threads read neighbouring columns. The same order and formulas as on the CPU, so
// the same bits.
//
// Threads do not wait for each other, so each sum over the batch ends a launch; the few sums of parts are added up by
// each thread of the next one, which needs no launch of its own. Three launches forward and two backward.
#ifndef TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_BODY_H_
#define TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_BODY_H_

#include <initializer_list>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"
#include "cc/core/normalization/batch_norm.h"
#include "cc/core/normalization/batch_norm_formulas.h"

namespace tf_booster {
namespace gpu {

// Where a unit is: rows [begin, end) of the columns from c on.
struct BatchTile {
  int64_t part, begin, end, c;
};

template <class V>
TFB_HOST_DEVICE BatchTile TileOf(int64_t unit, int64_t rows, int64_t units, int64_t of_part) {
  const int64_t packs = units / V::kSize, part = unit / packs;
  return {part, part * of_part, Min(rows, (part + 1) * of_part), (unit - part * packs) * V::kSize};
}

template <class V>
TFB_HOST_DEVICE V LoadColumns(const float* from) {
  return LoadPack(reinterpret_cast<const V*>(from));
}
template <class V>
TFB_HOST_DEVICE void StoreColumns(float* to, const V& value) {
  StorePack(reinterpret_cast<V*>(to), value);
}

// The sum of load(row) for rows [begin, end): a group's are all asked for before they are added.
template <class V, class Load>
TFB_HOST_DEVICE V SumBatchRows(int64_t begin, int64_t end, const Load& load) {
  V sum{};
  int64_t row = begin;
  for (; row + kRowsOfGroup <= end; row += kRowsOfGroup) {
    V v[kRowsOfGroup];
    TFB_UNROLL
    for (int r = 0; r < kRowsOfGroup; ++r) v[r] = load(row + r);
    TFB_UNROLL
    for (int i = 0; i < V::kSize; ++i) {
      sum.at[i] +=
          SumOfGroup(v[0].at[i], v[1].at[i], v[2].at[i], v[3].at[i], v[4].at[i], v[5].at[i], v[6].at[i], v[7].at[i]);
    }
  }
  for (; row < end; ++row) sum += load(row);
  return sum;
}

template <class V>
TFB_HOST_DEVICE V SumBatchParts(const float* sums, int64_t parts, int64_t units, int64_t c) {
  V total{};
  for (int64_t part = 0; part < parts; ++part) total += LoadColumns<V>(sums + part * units + c);
  return total;
}

TFB_HOST_DEVICE const float* OrNull(const float* values, int64_t c) { return values == nullptr ? nullptr : values + c; }

// Unit: a part of some columns.
template <class V>
struct BatchSums {
  BatchNormInput in;
  float* sums;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const BatchTile tile = TileOf<V>(unit, in.rows, in.units, RowsOfBatchPart(in.rows));
    const V sum = SumBatchRows<V>(tile.begin, tile.end,
                                  [&](int64_t row) { return LoadColumns<V>(in.x + row * in.units + tile.c); });
    StoreColumns(sums + tile.part * in.units + tile.c, sum);
  }
};

// Unit: a part of some columns. Those of the first part write the mean.
template <class V>
struct BatchSquares {
  BatchNormInput in;
  const float* sums;
  float* squares;
  float* mean;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const BatchTile tile = TileOf<V>(unit, in.rows, in.units, RowsOfBatchPart(in.rows));
    V m = SumBatchParts<V>(sums, NumBatchParts(in.rows), in.units, tile.c);
    TFB_UNROLL
    for (int i = 0; i < V::kSize; ++i) m.at[i] = exact::Div(m.at[i], static_cast<float>(in.rows));
    const V sum = SumBatchRows<V>(tile.begin, tile.end, [&](int64_t row) {
      V v = LoadColumns<V>(in.x + row * in.units + tile.c);
      TFB_UNROLL
      for (int i = 0; i < V::kSize; ++i) v.at[i] = SquaredDeviation(v.at[i], m.at[i]);
      return v;
    });
    if (in.rows > 0) StoreColumns(squares + tile.part * in.units + tile.c, sum);
    if (tile.part == 0) StoreColumns(mean + tile.c, m);
  }
};

// Rows that a thread writes: few enough for many threads, enough for the sums of parts that each adds up.
TFB_HOST_DEVICE int64_t RowsOfWriter(int64_t rows) { return RowsOfBatchPart(rows) / 4; }

// Unit: some rows of some columns. Those of the first rows write the variance.
template <class V>
struct BatchNormalized {
  BatchNormInput in;
  BatchNormOutput out;
  const float* squares;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const BatchTile tile = TileOf<V>(unit, in.rows, in.units, RowsOfWriter(in.rows));
    V variance = SumBatchParts<V>(squares, NumBatchParts(in.rows), in.units, tile.c), factor, shift;
    TFB_UNROLL
    for (int i = 0; i < V::kSize; ++i) {
      const int64_t c = tile.c + i;
      variance.at[i] = exact::Div(variance.at[i], static_cast<float>(in.rows));
      factor.at[i] = ScaleOfUnit(variance.at[i], in.epsilon, OrNull(in.gamma, c)).factor;
      shift.at[i] = ShiftOfUnit(out.mean[c], factor.at[i], OrNull(in.beta, c));
    }
    if (tile.part == 0) StoreColumns(out.variance + tile.c, variance);
    for (int64_t row = tile.begin; row < tile.end; ++row) {
      V v = LoadColumns<V>(in.x + row * in.units + tile.c);
      TFB_UNROLL
      for (int i = 0; i < V::kSize; ++i) v.at[i] = Normalized(v.at[i], factor.at[i], shift.at[i]);
      StoreColumns(out.y + row * in.units + tile.c, v);
    }
  }
};

// Unit: a part of some columns.
template <class V>
struct BatchGradientSums {
  BatchNormGradInput in;
  float* sums;
  float* products;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const BatchTile tile = TileOf<V>(unit, in.rows, in.units, RowsOfBatchPart(in.rows));
    const V mean = LoadColumns<V>(in.mean + tile.c);
    const auto dy = [&](int64_t row) { return LoadColumns<V>(in.dy + row * in.units + tile.c); };
    const auto product = [&](int64_t row) {
      const V upstream = dy(row);
      V v = LoadColumns<V>(in.x + row * in.units + tile.c);
      TFB_UNROLL
      for (int i = 0; i < V::kSize; ++i) v.at[i] = (v.at[i] - mean.at[i]) * upstream.at[i];
      return v;
    };
    StoreColumns(sums + tile.part * in.units + tile.c, SumBatchRows<V>(tile.begin, tile.end, dy));
    StoreColumns(products + tile.part * in.units + tile.c, SumBatchRows<V>(tile.begin, tile.end, product));
  }
};

// Unit: some rows of some columns. Those of the first rows write the gradients of gamma and beta.
template <class V>
struct BatchGradient {
  BatchNormGradInput in;
  BatchNormGradOutput out;
  const float* sums;
  const float* products;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const BatchTile tile = TileOf<V>(unit, in.rows, in.units, RowsOfWriter(in.rows));
    const int64_t parts = NumBatchParts(in.rows);
    const V dbeta = SumBatchParts<V>(sums, parts, in.units, tile.c), mean = LoadColumns<V>(in.mean + tile.c);
    V dgamma = SumBatchParts<V>(products, parts, in.units, tile.c);
    UnitGradient of[V::kSize];
    TFB_UNROLL
    for (int i = 0; i < V::kSize; ++i) {
      const float* const gamma = OrNull(in.gamma, tile.c + i);
      const UnitScale scale = ScaleOfUnit(in.variance[tile.c + i], in.epsilon, gamma);
      of[i] = GradientOfUnit(dbeta.at[i], dgamma.at[i], in.rows, scale, gamma);
      dgamma.at[i] = of[i].gamma;
    }
    if (tile.part == 0) StoreColumns(out.dbeta + tile.c, dbeta);
    if (tile.part == 0) StoreColumns(out.dgamma + tile.c, dgamma);
    for (int64_t row = tile.begin; row < tile.end; ++row) {
      const int64_t at = row * in.units + tile.c;
      const V x = LoadColumns<V>(in.x + at);
      V v = LoadColumns<V>(in.dy + at);
      TFB_UNROLL
      for (int i = 0; i < V::kSize; ++i) v.at[i] = GradientOfElement(v.at[i], x.at[i], mean.at[i], of[i]);
      StoreColumns(out.dx + at, v);
    }
  }
};

inline bool CanPackColumns(int64_t units, std::initializer_list<const float*> arrays) {
  bool packed = units % Pack<float>::kSize == 0;
  for (const float* array : arrays) packed = packed && IsPackAligned(array);
  return packed;
}

// How many tiles of so many rows there are, one at least: somebody must write what a batch without rows has.
inline int64_t NumTiles(int64_t rows, int64_t of_tile) { return rows == 0 ? 1 : CeilDiv(rows, of_tile); }

template <class V, class Queue>
void BatchNormBy(Queue& queue, const BatchNormInput& in, const BatchNormOutput& out, float* scratch) {
  const int64_t parts = NumBatchParts(in.rows), packs = in.units / V::kSize;
  float *const sums = scratch, *const squares = scratch + parts * in.units;
  ForEach(queue, parts * packs, BatchSums<V>{in, sums});
  ForEach(queue, NumTiles(in.rows, RowsOfBatchPart(in.rows)) * packs, BatchSquares<V>{in, sums, squares, out.mean});
  ForEach(queue, NumTiles(in.rows, RowsOfWriter(in.rows)) * packs, BatchNormalized<V>{in, out, squares});
}

template <class Queue>
void BatchNormOnQueue(Queue& queue, const BatchNormInput& in, const BatchNormOutput& out, float* scratch) {
  if (CanPackColumns(in.units, {in.x, out.y, out.mean, out.variance, scratch})) {
    BatchNormBy<Pack<float>>(queue, in, out, scratch);
  } else {
    BatchNormBy<One<float>>(queue, in, out, scratch);
  }
}

template <class V, class Queue>
void BatchNormGradBy(Queue& queue, const BatchNormGradInput& in, const BatchNormGradOutput& out, float* scratch) {
  const int64_t parts = NumBatchParts(in.rows), packs = in.units / V::kSize;
  float *const sums = scratch, *const products = scratch + parts * in.units;
  ForEach(queue, parts * packs, BatchGradientSums<V>{in, sums, products});
  ForEach(queue, NumTiles(in.rows, RowsOfWriter(in.rows)) * packs, BatchGradient<V>{in, out, sums, products});
}

template <class Queue>
void BatchNormGradOnQueue(Queue& queue, const BatchNormGradInput& in, const BatchNormGradOutput& out, float* scratch) {
  if (CanPackColumns(in.units, {in.dy, in.x, in.mean, out.dx, out.dgamma, out.dbeta, scratch})) {
    BatchNormGradBy<Pack<float>>(queue, in, out, scratch);
  } else {
    BatchNormGradBy<One<float>>(queue, in, out, scratch);
  }
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_BODY_H_
