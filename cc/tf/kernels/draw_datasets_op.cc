// TfBoosterDrawDatasets: TensorFlow's StatelessMultinomial, of one sample, for each of many seeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/lib/random/simple_philox.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::random::PhiloxRandom;

// The generator that stateless ops have for a seed.
PhiloxRandom GeneratorOf(int64_t first, int64_t second) {
  const auto low = [](int64_t seed) { return static_cast<uint32_t>(seed); };
  const auto high = [](int64_t seed) { return static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32); };
  PhiloxRandom::Key key;
  key[0] = 0x3ec8f720;
  key[1] = 0x02461e29;
  PhiloxRandom::ResultType counter;
  counter[0] = low(first);
  counter[1] = high(first);
  counter[2] = low(second);
  counter[3] = high(second);
  const auto mixed = PhiloxRandom(counter, key)();
  key[0] = mixed[0];
  key[1] = mixed[1];
  counter[0] = counter[1] = 0;
  counter[2] = mixed[2];
  counter[3] = mixed[3];
  return PhiloxRandom(counter, key);
}

template <class T>
class DrawDatasetsOp final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor &logits = ctx->input(0), &seeds = ctx->input(1);
    OP_REQUIRES(ctx, logits.dims() == 2 && logits.dim_size(0) == 1 && logits.dim_size(1) > 0,
                tensorflow::errors::InvalidArgument(name(), ": logits has the shape ", logits.shape().DebugString(),
                                                    "; wanted [1, the number of datasets]"));
    OP_REQUIRES(ctx, seeds.dims() == 2 && seeds.dim_size(1) == 2,
                tensorflow::errors::InvalidArgument(name(), ": seeds has the shape ", seeds.shape().DebugString(),
                                                    "; wanted [any, 2]"));
    Tensor* numbers = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {seeds.dim_size(0)}, &numbers));
    const std::vector<double> sums = SumsOfWeights(logits.flat<T>().data(), logits.dim_size(1));
    const auto seed = seeds.matrix<int64_t>();
    auto number = numbers->vec<int64_t>();
    for (int64_t i = 0; i < seeds.dim_size(0); ++i) {
      PhiloxRandom generator = GeneratorOf(seed(i, 0), seed(i, 1));
      const double drawn = tensorflow::random::SimplePhilox(&generator).RandDouble() * sums.back();
      number(i) = std::upper_bound(sums.begin(), sums.end(), drawn) - sums.begin();
    }
  }

 private:
  // Of each dataset the weights up to its own, relative to the largest. A logit that is not finite weighs nothing.
  static std::vector<double> SumsOfWeights(const T* logits, int64_t n) {
    T largest = std::numeric_limits<T>::lowest();
    for (int64_t i = 0; i < n; ++i) {
      if (std::isfinite(logits[i])) largest = std::max(largest, logits[i]);
    }
    std::vector<double> sums(n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (std::isfinite(logits[i])) sum += std::exp(static_cast<double>(logits[i]) - static_cast<double>(largest));
      sums[i] = sum;
    }
    return sums;
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterDrawDatasets").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
                        DrawDatasetsOp<float>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterDrawDatasets").Device(tensorflow::DEVICE_CPU).TypeConstraint<double>("T"),
                        DrawDatasetsOp<double>);

}  // namespace
}  // namespace tf_booster
