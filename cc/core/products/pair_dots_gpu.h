// Dot products of pairs of vectors on the card: those of pair_dots.h.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_GPU_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/products/pair_dots.h"

namespace tf_booster {
namespace gpu {

struct PairDotsJob {
  const std::vector<int64_t>* pairs = nullptr;  // As PairPlan's.
  int64_t rows = 0, dim = 0;
  std::vector<FieldPart<const float>> parts;
  DotColumns<float> dots;                   // Written, or where gradients are wanted, the gradient of the dots.
  std::vector<FieldPart<float>> gradients;  // Of parts, written; empty: the dots are.
};

int64_t PairDotsScratchBytes(const PairDotsJob& job);
// Starts on `stream` and does not wait. Null, or CUDA's message.
const char* PairDotsAsync(const PairDotsJob& job, void* scratch, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_GPU_H_
