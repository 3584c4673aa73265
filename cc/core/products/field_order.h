// The order in which a factorization machine's sums are added up, and the addends of its gradient: once for host and
// device. V is a float or several neighbouring ones that are added and multiplied lane by lane; V{} is zero.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_ORDER_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_ORDER_H_

#include <cstdint>

#include "cc/core/base/host_device.h"
#include "cc/core/gpu/pack.h"
#include "cc/core/pooling/weighted_pooling.h"
#include "cc/core/products/field_sums.h"

namespace tf_booster {

// A vector of Eigen's in TensorFlow's wheels: sums that fill it are added up in another order than others.
inline constexpr int64_t kFieldLanes = kEigenVectorBytes / static_cast<int64_t>(sizeof(float));

// Sums of values and of squares over the fields, for what the lanes of V are.
template <class V>
struct FieldTotals {
  V values{}, squares{};
  TFB_HOST_DEVICE void Add(const V& value) {
    values += value;
    squares += value * value;
  }
  TFB_HOST_DEVICE void Add(const FieldTotals& other) {
    values += other.values;
    squares += other.squares;
  }
};

// Calls load(f) for each field, once. One after another.
template <class V, class LoadField>
TFB_HOST_DEVICE FieldTotals<V> InTurn(int64_t fields, const LoadField& load) {
  FieldTotals<V> sum;
  for (int64_t f = 0; f < fields; ++f) sum.Add(load(f));
  return sum;
}

// How many fields are asked for before the first of them is added: a card's memory takes long.
#if defined(__CUDA_ARCH__)
inline constexpr int kFieldsAtOnce = 8;
#else
inline constexpr int kFieldsAtOnce = 4;
#endif

// Four sums in turns, which are added up before the rest is: as Eigen does from kEigenUnrolledRows on.
template <class V, class LoadField>
TFB_HOST_DEVICE FieldTotals<V> Interleaved(int64_t fields, const LoadField& load) {
  FieldTotals<V> sum, second, third, fourth;
  const int64_t unrolled = fields / 4 * 4;
  int64_t f = 0;
  const auto add_four = [&](const V* values) {
    sum.Add(values[0]);
    second.Add(values[1]);
    third.Add(values[2]);
    fourth.Add(values[3]);
  };
  if constexpr (kFieldsAtOnce > 4) {
    for (; f + kFieldsAtOnce <= unrolled; f += kFieldsAtOnce) {
      V values[kFieldsAtOnce];
      TFB_UNROLL
      for (int j = 0; j < kFieldsAtOnce; ++j) values[j] = load(f + j);
      TFB_UNROLL
      for (int j = 0; j < kFieldsAtOnce; j += 4) add_four(values + j);
    }
  }
  for (; f < unrolled; f += 4) {
    const V values[4] = {load(f), load(f + 1), load(f + 2), load(f + 3)};
    add_four(values);
  }
  sum.Add(second);
  sum.Add(third);
  sum.Add(fourth);
  for (; f < fields; ++f) sum.Add(load(f));
  return sum;
}

// The columns of a row that Eigen sums by whole vectors. It cuts the output into vectors from the first element on, and
// sums one by one what is in a vector that reaches into the next row.
TFB_HOST_DEVICE FieldColumns WholeVectors(int64_t row, int64_t columns) {
  const int64_t begin = row * columns, first = (begin + kFieldLanes - 1) / kFieldLanes * kFieldLanes;
  const int64_t end = (begin + columns) / kFieldLanes * kFieldLanes;
  return {first - begin, end > first ? end - first : 0};
}

// An addend of the gradient: of what a term gives for a column, and the vector's value there.
template <FieldTerm::Kind kKind, class V>
TFB_HOST_DEVICE V FieldAddend(const V& given, const V& vector) {
  if constexpr (kKind == FieldTerm::kSquareSum) return given * (vector * 2.0f);
  if constexpr (kKind == FieldTerm::kProductSum) return given * vector;
  return given;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_ORDER_H_
