// TfBoosterArrivedBatch: passes on what crossed from the embedding graph, all tensors in one op.
// TfBoosterWholeBatch: for what waits for all of them.
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class ArrivedBatchOp : public tensorflow::OpKernel {
 public:
  explicit ArrivedBatchOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    for (int i = 0; i < ctx->num_inputs(); ++i) ctx->set_output(i, ctx->input(i));
  }
  bool IsExpensive() override { return false; }
};

class WholeBatchOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext*) override {}
  bool IsExpensive() override { return false; }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterArrivedBatch").Device(tensorflow::DEVICE_CPU), ArrivedBatchOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterWholeBatch").Device(tensorflow::DEVICE_CPU), WholeBatchOp);

}  // namespace tf_booster
