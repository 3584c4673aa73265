// Batches of matrix products in which one side is picked from few matrices by row: attention of many candidates over
// the histories of few users. The picked matrices are read where they lie, and not copied for each row of the batch.
//
// Elements are sums as small_products.h has them: their bits do not depend on what else is in the batch.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// Rows of `matrices` matrices each, packed.
struct MatrixRows {
  const float* data = nullptr;
  int64_t matrices = 1;
  bool transposed = false;           // Each is stored as its transpose.
  std::vector<int64_t> inner = {0};  // Which matrix of a row the inner products read, in turn.
};

// Product h of row i: c [count, inner, m, n] gets left [m, k] times right [k, n]. Both sides have as many inner
// products.
struct GatheredProducts {
  MatrixRows left, right;
  bool left_is_gathered = false;   // Row i reads row rows[i] of that side, and row i of the other one,
  bool other_has_one_row = false;  // or row 0 of it.
  const int64_t* rows = nullptr;   // [count], each of them a row of the gathered side.
  int64_t count = 0, m = 0, n = 0, k = 0;
  float* c = nullptr;
};

void MultiplyGathered(const GatheredProducts& products, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_H_
