// TfBoosterClipRows and its gradient on the CPU.
#include "cc/tf/kernels/clip_rows_op.h"

#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

template <bool gradient>
class ClipRowsOp final : public ClipRowsOpBase<gradient> {
 public:
  using ClipRowsOpBase<gradient>::ClipRowsOpBase;

 private:
  tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const std::vector<ClipRows>& all) const override {
    TfParallelFor pf(ctx);
    ClipAllRows(all, pf);
    return tensorflow::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterClipRows").Device(tensorflow::DEVICE_CPU), ClipRowsOp<false>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterClipRowsGrad").Device(tensorflow::DEVICE_CPU), ClipRowsOp<true>);

}  // namespace
}  // namespace tf_booster
