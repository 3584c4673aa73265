// The card's batch normalization and its gradient, run by the host, and, compiled by nvcc, on a card: the CPU's bits.
#include "cc/core/normalization/batch_norm_body.h"

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/gpu/float_arrays.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/normalization/batch_norm_gpu.h"

namespace tf_booster {
namespace {

using gpu::Array;
using gpu::kGuard;
using gpu::Numbers;
using gpu::Same;

// All that is written, once by the CPU's code and once by the card's.
struct Written {
  Written(int64_t rows, int64_t units, int64_t shift)
      : y(rows * units + shift + 1, kGuard),
        dx(y),
        mean(units + 1, kGuard),
        variance(mean),
        dgamma(mean),
        dbeta(mean),
        scratch(BatchNormScratch(rows, units) + 1, kGuard) {}
  Array<float> y, dx, mean, variance, dgamma, dbeta, scratch;
};

// shift: packs are not aligned.
void Compare(int64_t rows, int64_t units, bool vectors, int64_t shift) {
  const Array<float> x = Numbers(rows * units, 1, shift), dy = Numbers(rows * units, 2, shift);
  const Array<float> gamma = Numbers(units, 3, 0), beta = Numbers(units, 4, 0);
  Written want(rows, units, shift), got(rows, units, shift);
  for (Written* to : {&want, &got}) {
    const float* const scale = vectors ? gamma.data() : nullptr;
    const BatchNormInput in = {x.data() + shift, rows, units, scale, vectors ? beta.data() : nullptr, 1e-3f};
    const BatchNormOutput out = {to->y.data() + shift, to->mean.data(), to->variance.data()};
    const BatchNormGradInput grad_in = {dy.data() + shift, in.x, rows, units, out.mean, out.variance, scale, 1e-3f};
    const BatchNormGradOutput grad_out = {to->dx.data() + shift, to->dgamma.data(), to->dbeta.data()};
    if (to == &want) {
      SerialFor pf;
      BatchNorm(in, out, to->scratch.data(), pf);
      BatchNormGrad(grad_in, grad_out, to->scratch.data(), pf);
    } else {
#if defined(__CUDACC__)
      EXPECT_TRUE(gpu::BatchNormAsync(in, out, to->scratch.data(), nullptr) == nullptr);
      EXPECT_TRUE(gpu::BatchNormGradAsync(grad_in, grad_out, to->scratch.data(), nullptr) == nullptr);
      gpu::WaitForCard();
#else
      gpu::HostQueue queue(3);
      gpu::BatchNormOnQueue(queue, in, out, to->scratch.data());
      gpu::BatchNormGradOnQueue(queue, grad_in, grad_out, to->scratch.data());
      if (rows > 0) EXPECT_EQ(queue.launches(), 5);
#endif
    }
  }
  EXPECT_TRUE(Same(got.y, want.y) && Same(got.dx, want.dx));
  EXPECT_EQ(got.scratch[got.scratch.size() - 1], kGuard);
  if (rows == 0) {  // NaN, of which the sign is no matter.
    EXPECT_TRUE(got.mean[0] != got.mean[0] && got.variance[0] != got.variance[0] && got.dgamma[0] != got.dgamma[0]);
    EXPECT_TRUE(Same(got.dbeta, want.dbeta));
    return;
  }
  EXPECT_TRUE(Same(got.mean, want.mean) && Same(got.variance, want.variance));
  EXPECT_TRUE(Same(got.dgamma, want.dgamma) && Same(got.dbeta, want.dbeta));
}

TEST(CardNormalizesBatchesWithTheCpusBits) {
  for (const int64_t rows : {0, 1, 2, 7, 8, 31, 32, 33, 100}) {
    for (const int64_t units : {1, 3, 4, 7, 16, 33, 64}) {
      Compare(rows, units, true, 0);
      Compare(rows, units, false, 1);
    }
  }
  Compare(2049, 12, true, 0);
  Compare(4500, 5, true, 0);
  Compare(70, 1030, true, 0);
}

}  // namespace
}  // namespace tf_booster
