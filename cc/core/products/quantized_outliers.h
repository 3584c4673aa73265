// The few elements of a row of activations that are so large that the others would be rounded away beside them: numbers
// that the program did not normalise, beside embeddings.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_OUTLIERS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_OUTLIERS_H_

#include <cstdint>
#include <vector>

namespace tf_booster {

// Whether a row may have any: its largest element is 32 times as large as the mean. A row whose elements are nine tenths
// zeros, behind a Relu, is seldom like that.
inline bool MayHaveOutliers(float largest, float sum, int64_t k) {
  return largest > sum * (32.0f / static_cast<float>(k));
}

// Writes where the outliers of the finite row x are: at most k / 32 elements, by their exponents at least three above
// the largest other one, which is 4 to 16 times. False where there are none.
bool FindOutliers(const float* x, int64_t k, std::vector<int64_t>* places);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_OUTLIERS_H_
