// TfBoosterBatchNorm and TfBoosterBatchNormGrad.
#include "cc/tf/kernels/batch_norm_op.h"

#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;

class BatchNormOp final : public BatchNormForwardBase {
 public:
  using BatchNormForwardBase::BatchNormForwardBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const BatchNormInput& in, const BatchNormOutput& out,
                         float* scratch) const override {
    TfParallelFor pf(ctx);
    BatchNorm(in, out, scratch, pf);
    return tensorflow::OkStatus();
  }
};

class BatchNormGradOp final : public BatchNormBackwardBase {
 public:
  using BatchNormBackwardBase::BatchNormBackwardBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const BatchNormGradInput& in, const BatchNormGradOutput& out,
                         float* scratch) const override {
    TfParallelFor pf(ctx);
    BatchNormGrad(in, out, scratch, pf);
    return tensorflow::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterBatchNorm").Device(tensorflow::DEVICE_CPU), BatchNormOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterBatchNormGrad").Device(tensorflow::DEVICE_CPU), BatchNormGradOp);

}  // namespace
}  // namespace tf_booster
