// The order in which a factorization machine's sums are added up, and the addends of its gradient: once for host and
// device. V is a float or several neighbouring ones that are added and multiplied lane by lane; V{} is zero.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_ORDER_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_ORDER_H_

#include <cstdint>

#include "cc/core/base/host_device.h"
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

// Four sums in turns, which are added up before the rest is: as Eigen does from kEigenUnrolledRows on.
template <class V, class LoadField>
TFB_HOST_DEVICE FieldTotals<V> Interleaved(int64_t fields, const LoadField& load) {
  FieldTotals<V> sum, second, third, fourth;
  const int64_t unrolled = fields / 4 * 4;
  for (int64_t f = 0; f < unrolled; f += 4) {
    sum.Add(load(f));
    second.Add(load(f + 1));
    third.Add(load(f + 2));
    fourth.Add(load(f + 3));
  }
  sum.Add(second);
  sum.Add(third);
  sum.Add(fourth);
  for (int64_t f = unrolled; f < fields; ++f) sum.Add(load(f));
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
