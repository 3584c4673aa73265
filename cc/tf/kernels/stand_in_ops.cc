// The ops that stand for a table until the graph is rewritten. They fail on every device: an unrewritten graph must
// never answer with numbers.
#include <string>

#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class StandInOp : public tensorflow::OpKernel {
 public:
  explicit StandInOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_name", &table_name_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ctx->SetStatus(tensorflow::errors::FailedPrecondition(
        ShortOpName(*this), " '", table_name_, "': the graph runs before it was rewritten, so the table '", table_name_,
        "' is not there yet. Call tf.enable_gpu_booster() before the graph is built and run it with an Estimator or a "
        "MonitoredTrainingSession; before a plain tf.compat.v1.Session call tf_booster.rewrite_graph(graph)"));
  }

 private:
  std::string table_name_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterStandInTable").Device(tensorflow::DEVICE_CPU), StandInOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterStandInTable").Device(tensorflow::DEVICE_GPU).HostMemory("table"), StandInOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterStandInIds").Device(tensorflow::DEVICE_CPU), StandInOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterStandInIds").Device(tensorflow::DEVICE_GPU), StandInOp);

}  // namespace tf_booster
