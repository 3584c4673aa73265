// The sums over an example's vectors, and over their squares, that a factorization machine is made of, and their
// gradient (S. Rendle, Factorization Machines, ICDM 2010, lemma 3.1):
//
//   sum over pairs i < j of <v_i, v_j> = 1/2 * sum over columns of ((sum of v_i)^2 - sum of v_i^2)
//
// TensorFlow's ops for it, and those of the gradient, are a dozen passes over [rows, fields, columns], which no
// second-level cache holds. Here the vectors are read once from where they lie, for the sums, and once for the
// gradient.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// Matrices [fields, width] of all examples, packed: [rows, fields, width].
struct Fields {
  const float* data = nullptr;
  int64_t rows = 0, fields = 0, width = 0;
};

// Some columns of each field.
struct FieldColumns {
  int64_t first = 0, count = 0;
};

// What stands beside the vectors in a join: [rows, columns], packed.
struct JoinedPart {
  const float* data = nullptr;
  int64_t columns = 0;
};

// What is written of the vectors `columns`, each where it is not null. Sums are in the order of TensorFlow's Sum on the
// CPU, whatever the number of threads: the same bits.
struct FieldSums {
  FieldColumns columns;
  float* sums = nullptr;         // [rows, columns.count]
  float* square_sums = nullptr;  // [rows, columns.count]
  // [rows, join_width]: `before`, the vectors one after another, `behind`.
  float* joined = nullptr;
  int64_t join_width = 0;
  std::vector<JoinedPart> before, behind;
};

// Columns of each field, packed: [rows, fields, columns.count].
struct FieldCopy {
  FieldColumns columns;
  float* to = nullptr;
};

void SumFields(const Fields& in, const FieldSums& out, const std::vector<FieldCopy>& copies, ParallelFor& pf);

// One addend of the gradient of some columns of each field: for field f and its column c, counted from the first,
//   kWhole           data[f * count + c]     what else is computed of the vectors, a tower for example
//   kSum             data[c]                 the gradient of the sums
//   kSquareSum       data[c] * (2 * vector)  of the sums of squares
//   kProductSum      data[c] * vector        of one factor of vector * vector, where squares are written so
// in a row that begins `step` floats behind the row before it; a step of 0 gives all rows the same.
struct FieldTerm {
  enum Kind { kWhole, kSum, kSquareSum, kProductSum };
  Kind kind = kWhole;
  const float* data = nullptr;
  int64_t step = 0;
};

// `columns` columns of each field, and what their gradient is the sum of, in this order. At least one term.
struct FieldRange {
  int64_t columns = 0;
  std::vector<FieldTerm> terms;
};

// gradient: [rows, fields, width], packed, as `in`. The ranges are side by side and make up the width.
void SumFieldsGradient(const Fields& in, const std::vector<FieldRange>& ranges, float* gradient, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_H_
