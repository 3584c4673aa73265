// Products with weights that are integers of 8 or 16 bits: a quarter or half of float32's arithmetic and memory.
//
// A row of activations is rounded to integers when it is multiplied, by a scale and a zero point of its own: its result
// depends on no other row, on no number of rows and on no number of threads. Sums of integers are exact, and what
// follows is one expression, so every instruction set gives the same bits. quantized_loops.h has the algorithm.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_PRODUCTS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_PRODUCTS_H_

#include <cstdint>

#include "cc/core/base/parallel_for.h"
#include "cc/core/products/quantized_weights.h"

namespace tf_booster {

// c [m, n] = a [m, k] times the weights, plus bias. All packed, row by row.
//
// A row with elements that are not finite, whose largest and smallest (0 among them) are apart by less than 2^-100, or
// by more than 2^60, is multiplied in float32; so are the weights' float_columns(). NaN and infinity come out
// as float32 has them. Few elements of a row that are much larger than the others are multiplied in float32, too, so
// that the others keep their precision (quantized_outliers.h).
struct QuantizedProduct {
  int64_t m = 0;
  const float* a = nullptr;
  const float* bias = nullptr;  // [n], or null.
  bool relu = false;            // Elements below 0 become 0; NaN stays.
  float* c = nullptr;
};

void MultiplyQuantized(const QuantizedProduct& product, const QuantizedWeights& weights, ParallelFor& pf,
                       QuantizedLevel level = BestQuantizedLevel());

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_PRODUCTS_H_
