// TfBoosterTableGrowth: what an update will add to the rows of a table, for a limit that holds over all ranks.
#include <unordered_set>

#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class TableGrowthOp : public tensorflow::OpKernel {
 public:
  explicit TableGrowthOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("P", &num_probes_));
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.OpenField());
    const bool filtered = call.table().options().fields[call.field()].min_frequency > 1;
    int64_t added = 0;
    std::unordered_set<int64_t> seen;  // A key may be new in several probes.
    for (int p = 0; p < num_probes_ && !filtered; ++p) {
      const Tensor& keys = ctx->input(1 + p);
      const Tensor& fields = ctx->input(1 + num_probes_ + p);
      const Tensor& handles = ctx->input(1 + 2 * num_probes_ + p);
      OP_REQUIRES_OK(ctx, call.CheckVector(keys, "keys"));
      OP_REQUIRES_OK(ctx, call.CheckVector(fields, "key_fields", keys.NumElements(), "keys"));
      OP_REQUIRES_OK(ctx, call.CheckVector(handles, "handles", keys.NumElements(), "keys"));
      for (int64_t i = 0; i < keys.NumElements(); ++i) {
        if (FieldsOf(fields)[i] != call.field() || handles.flat<int64_t>()(i) != kNoRow) continue;
        added += num_probes_ == 1 || seen.insert(keys.flat<int64_t>()(i)).second;
      }
    }
    Tensor* growth = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {2}, &growth));
    growth->flat<int64_t>()(0) = call.table().FieldSize(call.field());
    growth->flat<int64_t>()(1) = added;
  }

 private:
  int num_probes_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableGrowth").Device(tensorflow::DEVICE_CPU), TableGrowthOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableGrowth")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("table")
                            .HostMemory("keys")
                            .HostMemory("key_fields")
                            .HostMemory("handles")
                            .HostMemory("growth"),
                        TableGrowthOp);

}  // namespace tf_booster
