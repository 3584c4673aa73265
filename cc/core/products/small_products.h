// Many small matrix products as one loop: layers of a few columns, for which a call each costs more than the
// arithmetic.
//
// Every element is one sum in the order of k, cut into blocks of 512 that are added up: its bits depend on the
// processor (with or without FMA), not on the number of threads or on what else is multiplied.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_SMALL_PRODUCTS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_SMALL_PRODUCTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// c [m, n] = left [m, k] times right [k, n], plus bias. Matrices are packed, row by row, but c and a may be some
// columns of wider ones.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;  // The left matrix, or its transpose.
  const float* b = nullptr;  // The right matrix, or its transpose; best small, since a transpose is turned first.
  bool a_transposed = false, b_transposed = false;
  const float* bias = nullptr;  // [n], or null.
  bool relu = false;            // Elements below 0 become 0; NaN stays.
  float* c = nullptr;
  int64_t c_step = 0;  // From a row of c to the next, in floats; 0: n.
  int64_t a_step = 0;  // The same of a, if it is not transposed; 0: k.
};

void Multiply(const std::vector<Product>& products, ParallelFor& pf);

// The same for products of one `m`, some rows of all of them at a time: where their results lie beside each other, each
// of which is half a cache line. Calls also(begin, end) on the same rows.
void MultiplyByRows(const std::vector<Product>& products, ParallelFor& pf, FunctionRef<void(int64_t, int64_t)> also);

// The same by loops that any processor runs: what Multiply does without FMA. For tests.
void MultiplyPlainly(const std::vector<Product>& products);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_SMALL_PRODUCTS_H_
