// TfBoosterConfusionMatrix on the CPU.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cc/core/metrics/confusion_matrix.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::Tensor;
namespace errors = tensorflow::errors;

class ConfusionMatrixOp final : public tensorflow::OpKernel {
 public:
  explicit ConfusionMatrixOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<float> given;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("thresholds", &given));
    OP_REQUIRES(ctx, std::none_of(given.begin(), given.end(), [](float t) { return std::isnan(t); }),
                errors::InvalidArgument("ConfusionMatrix '", name(), "': thresholds has a NaN, wanted numbers"));
    places_.resize(given.size());
    std::iota(places_.begin(), places_.end(), 0);
    std::sort(places_.begin(), places_.end(), [&](int32_t a, int32_t b) { return given[a] < given[b]; });
    for (const int32_t place : places_) thresholds_.push_back(given[place]);
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const Tensor &labels = ctx->input(0), &predictions = ctx->input(1);
    const int64_t num_labels = labels.NumElements(), num_predictions = predictions.NumElements();
    OP_REQUIRES(ctx, num_labels == num_predictions || num_labels == 1 || num_predictions == 1,
                errors::InvalidArgument("ConfusionMatrix '", name(), "': ", num_labels, " labels for ", num_predictions,
                                        " predictions, wanted as many, or one"));
    LabelledPredictions given;
    given.n = num_labels == 1 ? num_predictions : num_labels;
    given.predictions = predictions.flat<float>().data();
    given.prediction_step = num_predictions == 1 ? 0 : 1;
    given.labels = labels.flat<bool>().data();
    given.label_step = num_labels == 1 ? 0 : 1;
    float* results[4];
    for (int i = 0; i < 4; ++i) {
      Tensor* result = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {static_cast<int64_t>(places_.size())}, &result));
      results[i] = result->flat<float>().data();
    }
    TfParallelFor pf(ctx);
    CountsAbove counts;
    CountAbove(given, thresholds_, pf, &counts);
    SplitAtThresholds(counts[1], places_, results[0], results[1]);
    SplitAtThresholds(counts[0], places_, results[3], results[2]);
  }

 private:
  std::vector<float> thresholds_;  // Ascending.
  std::vector<int32_t> places_;    // Where they stood.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterConfusionMatrix").Device(tensorflow::DEVICE_CPU), ConfusionMatrixOp);

}  // namespace
}  // namespace tf_booster
