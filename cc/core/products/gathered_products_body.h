// Products with gathered matrices as a body for the GPU: a thread has an element of the result, or four beside each
// other where the right matrices' rows allow it. What threads of one user read is in the caches.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_BODY_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_BODY_H_

#include <cmath>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"
#include "cc/core/products/gathered_products_gpu.h"

namespace tf_booster {
namespace gpu {

template <class V, class Index>
struct GatheredElements {
  static constexpr int64_t kBlock = 512;  // Of k: as small_products.cc sums.
  GatheredOnCard<Index> p;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    constexpr int kMost = StridedMatrices::kMostInner;
    const int64_t of_row = p.n / V::kSize;
    int64_t rest = unit / of_row;
    const int64_t j = (unit - rest * of_row) * V::kSize, above = rest / p.m, i = rest - above * p.m;
    rest = above;
    int64_t left_at = i * p.left.height_step, right_at = j * p.right.width_step;
    TFB_UNROLL
    for (int d = kMost - 1; d >= 0; --d) {
      const int64_t next = rest / p.inner[d], place = rest - next * p.inner[d];
      left_at += place * p.left.inner_steps[d];
      right_at += place * p.right.inner_steps[d];
      rest = next;
    }
    const int64_t row = static_cast<int64_t>(p.rows[rest * p.rows_step]);
    V total = V();
    if (row >= 0 && row < p.few) {
      const float* left = p.left.data + left_at + (p.left_is_gathered ? row : rest) * p.left.row_step;
      const float* right = p.right.data + right_at + (p.left_is_gathered ? rest : row) * p.right.row_step;
      for (int64_t start = 0; start < p.k; start += kBlock) {
        V sum = V();
        for (int64_t k = Min(kBlock, p.k - start); k > 0; --k) {
          const float a = LoadPack(left);
          const V b = LoadPack(reinterpret_cast<const V*>(right));
          TFB_UNROLL
          for (int e = 0; e < V::kSize; ++e) sum.at[e] = fmaf(a, b.at[e], sum.at[e]);
          left += p.left.width_step;
          right += p.right.height_step;
        }
        total += sum;
      }
    }
    StorePack(reinterpret_cast<V*>(p.c + unit * V::kSize), total);
  }
};

template <class Queue, class Index>
void MultiplyGatheredOn(Queue& queue, const GatheredOnCard<Index>& p) {
  int64_t units = p.batch * p.m * p.n;
  for (const int64_t size : p.inner) units *= size;
  constexpr int kSize = Pack<float>::kSize;
  int64_t steps = p.n | p.right.row_step | p.right.height_step;
  for (const int64_t step : p.right.inner_steps) steps |= step;
  if (p.right.width_step == 1 && steps % kSize == 0 && IsPackAligned(p.right.data) && IsPackAligned(p.c)) {
    ForEach(queue, units / kSize, GatheredElements<Pack<float>, Index>{p});
  } else {
    ForEach(queue, units, GatheredElements<One<float>, Index>{p});
  }
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_GATHERED_PRODUCTS_BODY_H_
