// TfBoosterTableInsertOrAssign, …Erase and …Clear.
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class TableInsertOrAssignOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.OpenField());
    OP_REQUIRES_OK(ctx, call.CheckOwned());
    const Tensor& keys = ctx->input(1);
    const Tensor& values = ctx->input(2);
    OP_REQUIRES_OK(ctx, call.CheckVector(keys, "keys"));
    OP_REQUIRES_OK(ctx, call.CheckRows(values, "values", keys.NumElements(), "keys"));
    OP_REQUIRES_OK(ctx, call.Convert(call.table().InsertOrAssign(call.KeysOf(keys), values.flat<float>().data(),
                                                                 call.parallel_for())));
    call.resource().increments().Raise(call.field(), 0);
  }
};

class TableEraseOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.OpenField());
    OP_REQUIRES_OK(ctx, call.CheckOwned());
    const Tensor& keys = ctx->input(1);
    OP_REQUIRES_OK(ctx, call.CheckVector(keys, "keys"));
    Tensor* erased = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &erased));
    int64_t count = 0;
    OP_REQUIRES_OK(ctx, call.Convert(call.table().Erase(call.KeysOf(keys), &count, call.parallel_for())));
    erased->scalar<int64_t>()() = count;
  }
};

class TableClearOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.OpenField());
    OP_REQUIRES_OK(ctx, call.CheckOwned());
    OP_REQUIRES_OK(ctx, call.Convert(call.table().Clear(call.field())));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableInsertOrAssign").Device(tensorflow::DEVICE_CPU), TableInsertOrAssignOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableErase").Device(tensorflow::DEVICE_CPU), TableEraseOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableClear").Device(tensorflow::DEVICE_CPU), TableClearOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableInsertOrAssign")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("table")
                            .HostMemory("keys")
                            .HostMemory("values"),
                        TableInsertOrAssignOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableErase")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("table")
                            .HostMemory("keys")
                            .HostMemory("erased"),
                        TableEraseOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableClear").Device(tensorflow::DEVICE_GPU).HostMemory("table"), TableClearOp);

}  // namespace tf_booster
