// TfBoosterTableGather: embeddings of a probe's codes.
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class TableGatherOp : public tensorflow::OpKernel {
 public:
  explicit TableGatherOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckDim(dim_));
    const Tensor& codes = ctx->input(1);
    const Tensor& keys = ctx->input(2);
    const Tensor& handles = ctx->input(3);
    OP_REQUIRES_OK(ctx, call.CheckVector(keys, "keys"));
    OP_REQUIRES_OK(ctx, call.CheckVector(handles, "handles", keys.NumElements(), "keys"));
    tensorflow::TensorShape shape = codes.shape();
    OP_REQUIRES_OK(ctx, shape.AddDimWithStatus(dim_));
    Tensor* values = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &values));
    OP_REQUIRES_OK(ctx, call.Convert(call.table().Gather(KeysOf(keys), handles.flat<int64_t>().data(),
                                                         codes.flat<int64_t>().data(), codes.NumElements(),
                                                         values->flat<float>().data(), call.parallel_for())));
  }

 private:
  int64_t dim_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableGather").Device(tensorflow::DEVICE_CPU), TableGatherOp);

}  // namespace tf_booster
