// TfBoosterFieldSums and TfBoosterFieldSumsGrad.
#include "cc/tf/kernels/field_sums_op.h"

#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;

class FieldSumsOp final : public FieldSumsOpBase {
 public:
  using FieldSumsOpBase::FieldSumsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const Fields& in, const FieldSums& out,
                         const std::vector<FieldCopy>& copies) const override {
    TfParallelFor pf(ctx);
    SumFields(in, out, copies, pf);
    return tensorflow::OkStatus();
  }
};

class FieldSumsGradOp final : public FieldSumsGradOpBase {
 public:
  using FieldSumsGradOpBase::FieldSumsGradOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const Fields& in, const std::vector<FieldRange>& ranges,
                         float* gradient) const override {
    TfParallelFor pf(ctx);
    SumFieldsGradient(in, ranges, gradient, pf);
    return tensorflow::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterFieldSums").Device(tensorflow::DEVICE_CPU), FieldSumsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterFieldSumsGrad").Device(tensorflow::DEVICE_CPU), FieldSumsGradOp);

}  // namespace
}  // namespace tf_booster
