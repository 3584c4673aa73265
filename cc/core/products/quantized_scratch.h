// What rows of activations are made of while they are multiplied. Its functions are compiled for any processor: what the
// loops of a level instantiate themselves could be the copy that the linker keeps for everyone.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_SCRATCH_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_SCRATCH_H_

#include <cstdint>
#include <vector>

#include "cc/core/products/quantized_products.h"

namespace tf_booster {

constexpr int64_t kRowBlock = 48;  // Rows that are rounded before they are multiplied.

class RowScratch {
 public:
  // For at most `rows` rows at a time. The product and the weights must outlive it.
  RowScratch(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t rows);
  ~RowScratch();

  // Where row r of the block goes: groups() * 4 bytes.
  char* rounded(int64_t r) const { return rounded_ + r * step_; }

  // Row r of the block, which is row `row` of the product, without its outliers, each of them multiplied in float32 and
  // added to bias(r). Null where it has none; see quantized_outliers.h.
  const float* TakeOutliers(int64_t r, int64_t row);

  // For row r: all columns'. Those of the product, or zeros, unless there are outliers.
  void ResetBias(int64_t r) { biases_[r] = shared_bias_; }
  const float* const* biases() const { return biases_; }

 private:
  const QuantizedProduct& product_;
  const QuantizedWeights& weights_;
  const int64_t step_;
  std::vector<char> memory_;
  char* rounded_;
  std::vector<float> zeros_, rest_;
  const float* shared_bias_;
  std::vector<int64_t> places_;
  std::vector<float> own_biases_[kRowBlock];
  const float* biases_[kRowBlock];
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_SCRATCH_H_
