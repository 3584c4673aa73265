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

// c [m, n] = left [m, k] times right [k, n], plus bias. All matrices are packed, row by row.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;  // The left matrix, or its transpose.
  const float* b = nullptr;  // The right matrix, or its transpose; best small, since a transpose is turned first.
  bool a_transposed = false, b_transposed = false;
  const float* bias = nullptr;  // [n], or null.
  bool relu = false;            // Elements below 0 become 0; NaN stays.
  float* c = nullptr;
};

void Multiply(const std::vector<Product>& products, ParallelFor& pf);

// The same by loops that any processor runs: what Multiply does without FMA. For tests.
void MultiplyPlainly(const std::vector<Product>& products);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_SMALL_PRODUCTS_H_
