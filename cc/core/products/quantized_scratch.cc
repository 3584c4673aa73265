#include "cc/core/products/quantized_scratch.h"

#include <algorithm>

namespace tf_booster {

RowScratch::RowScratch(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t rows)
    : k_(weights.k()),
      n_(weights.n()),
      step_(weights.groups() * 4),
      memory_(std::min(kRowBlock, rows) * step_ + 1),
      rounded_(memory_.data()),
      zeros_(product.bias == nullptr ? n_ : 0),
      shared_(product.bias == nullptr ? zeros_.data() : product.bias) {}

RowScratch::~RowScratch() = default;

float* RowScratch::OwnBias(int64_t r) {
  own_.resize(kRowBlock * n_);  // At the first call; it stays where it is after that.
  float* const bias = own_.data() + r * n_;
  std::copy(shared_, shared_ + n_, bias);
  biases_[r] = bias;
  return bias;
}

float* RowScratch::rest() {
  rest_.resize(k_);
  return rest_.data();
}

int64_t* RowScratch::places() {
  places_.resize(k_);
  return places_.data();
}

}  // namespace tf_booster
