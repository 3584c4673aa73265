// The products of gathered_products.h on the card, with the bits of a CPU that has FMA.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_GPU_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_GPU_H_

#include <cstdint>

namespace tf_booster {
namespace gpu {

// One side: element (i, j) of matrix h of a row is data[row * row_step + the sum of h's places times steps + i *
// height_step
// + j * width_step].
struct StridedMatrices {
  static constexpr int kMostInner = 4;
  const float* data = nullptr;
  int64_t row_step = 0, height_step = 0, width_step = 0;  // row_step: 0 where there is one row for all.
  int64_t inner_steps[kMostInner] = {};
};

// c [batch, inner…, m, n], packed. A row of the gathered side outside [0, few) gives zeros, as TensorFlow's gather on
// the GPU.
template <class Index>
struct GatheredOnCard {
  StridedMatrices left, right;
  bool left_is_gathered = false;
  const Index* rows = nullptr;  // [batch]; of batch row i the entry i * rows_step.
  int64_t rows_step = 1;        // 0 where there is one entry for all.
  int64_t few = 0, batch = 0, m = 0, n = 0, k = 0;
  int64_t inner[StridedMatrices::kMostInner] = {1, 1, 1, 1};
  float* c = nullptr;
};

// Starts on `stream` and does not wait. Null, or CUDA's message.
template <class Index>
const char* MultiplyGatheredAsync(const GatheredOnCard<Index>& products, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_GPU_H_
