// TfBoosterTableSize and TfBoosterTableStats.
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class TableSizeOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.OpenField());
    Tensor* size = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &size));
    size->scalar<int64_t>()() = call.table().FieldSize(call.field());
  }
};

class TableStatsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.OpenField());
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {9}, &out));
    TableStats stats;
    OP_REQUIRES_OK(ctx, call.Convert(call.table().FieldStats(call.field(), &stats)));
    auto row = out->vec<int64_t>();
    row(0) = stats.rows;
    row(1) = stats.pending;
    row(2) = stats.evicted;
    row(3) = stats.step;
    row(4) = stats.index_capacity;
    row(5) = stats.bytes;
    row(6) = stats.host_bytes;
    row(7) = stats.disk_bytes;
    row(8) = ctx->device()->attributes().device_type() == tensorflow::DEVICE_GPU;  // Ops run where their table is.
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSize").Device(tensorflow::DEVICE_CPU), TableSizeOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableStats").Device(tensorflow::DEVICE_CPU), TableStatsOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterTableSize").Device(tensorflow::DEVICE_GPU).HostMemory("table").HostMemory("size"), TableSizeOp);
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterTableStats").Device(tensorflow::DEVICE_GPU).HostMemory("table").HostMemory("stats"), TableStatsOp);

}  // namespace tf_booster
