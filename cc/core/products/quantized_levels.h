// The loops that quantized_products.cc and quantized_weights.cc choose from, a set for each level.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LEVELS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LEVELS_H_

#include <cstdint>

#include "cc/core/products/quantized_products.h"
#include "cc/core/products/quantized_scratch.h"
#include "cc/core/products/quantized_weights.h"

namespace tf_booster {

// Where a panel of weights goes. b: its first column in row 0 of the matrix, `step` floats to the next row's.
struct PanelJob {
  const float* b;
  int64_t step, k, columns;  // columns: of the panel, at most kPanel.
  int64_t vectors;           // Of the panel.
  char* data;
  float* scales;  // [vectors * 16]
  int32_t* sums;  // [vectors * 16] of the first block; `sums_step` to the next block's.
  int64_t sums_step;
  bool* is_float;  // [vectors * 16]
};

struct QuantizedLoops {
  void (*pack)(QuantizedType type, const PanelJob& job);
  // Rows [begin, end).
  void (*multiply)(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t begin, int64_t end,
                   RowScratch& scratch);
};

extern const QuantizedLoops kScalarQuantized, kAvx2Quantized, kVnniQuantized;

const QuantizedLoops& QuantizedLoopsOf(QuantizedLevel level);

// In float32, in the order of k: row `row` of the product, or its float_columns().
void MultiplyFloatRow(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t row);
void MultiplyFloatColumns(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t row);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LEVELS_H_
