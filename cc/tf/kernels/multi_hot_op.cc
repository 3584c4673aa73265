// TfBoosterMultiHot on the CPU.
#include "cc/tf/kernels/multi_hot_op.h"

#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

class MultiHotOp final : public MultiHotOpBase {
 public:
  using MultiHotOpBase::MultiHotOpBase;

 private:
  tensorflow::Status Write(tensorflow::OpKernelContext* ctx, const std::vector<MultiHot>& all) const override {
    TfParallelFor pf(ctx);
    WriteMultiHots(all, pf);
    return tensorflow::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiHot").Device(tensorflow::DEVICE_CPU), MultiHotOp);

}  // namespace
}  // namespace tf_booster
