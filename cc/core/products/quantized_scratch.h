// What rows of activations are made of while they are multiplied. Its functions are compiled for any processor: what
// the loops of a level instantiate themselves could be the copy that the linker keeps for everyone.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_SCRATCH_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_SCRATCH_H_

#include <cstdint>
#include <vector>

#include "cc/core/products/quantized_products.h"

namespace tf_booster {

constexpr int64_t kRowBlock = 48;  // Rows that are rounded before they are multiplied.

class RowScratch {
 public:
  // For at most `rows` rows of the product at a time. Its bias must outlive this.
  RowScratch(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t rows);
  ~RowScratch();

  // Where row r of the block goes: groups() * 4 bytes.
  char* rounded(int64_t r) const { return rounded_ + r * step_; }

  // For row r: all columns' biases. Those of the product, or zeros.
  void ResetBias(int64_t r) { biases_[r] = shared_; }
  const float* const* biases() const { return biases_; }
  // A copy of them in their place, which may be changed.
  float* OwnBias(int64_t r);

  // A row without its outliers, and where these were.
  float* rest();
  int64_t* places();

 private:
  const int64_t k_, n_, step_;
  std::vector<char> memory_;
  char* const rounded_;
  std::vector<float> zeros_, rest_, own_;
  const float* const shared_;
  std::vector<int64_t> places_;
  const float* biases_[kRowBlock];
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_SCRATCH_H_
