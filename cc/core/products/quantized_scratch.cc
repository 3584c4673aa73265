#include "cc/core/products/quantized_scratch.h"

#include <algorithm>

#include "cc/core/products/quantized_outliers.h"

namespace tf_booster {

RowScratch::RowScratch(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t rows)
    : product_(product),
      weights_(weights),
      step_(weights.groups() * 4),
      memory_(std::min(kRowBlock, rows) * step_ + 1),
      rounded_(memory_.data()),
      zeros_(product.bias == nullptr ? weights.n() : 0),
      shared_bias_(product.bias == nullptr ? zeros_.data() : product.bias) {}

RowScratch::~RowScratch() = default;

const float* RowScratch::TakeOutliers(int64_t r, int64_t row) {
  const int64_t k = weights_.k(), n = weights_.n();
  const float* const x = product_.a + row * k;
  if (!FindOutliers(x, k, &places_)) return nullptr;
  rest_.assign(x, x + k);
  std::vector<float>& bias = own_biases_[r];
  bias.assign(shared_bias_, shared_bias_ + n);
  for (const int64_t i : places_) {
    rest_[i] = 0;
    for (int64_t j = 0; j < n; ++j) bias[j] += x[i] * weights_.at(i, j);
  }
  biases_[r] = bias.data();
  return rest_.data();
}

}  // namespace tf_booster
