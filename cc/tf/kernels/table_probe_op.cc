// TfBoosterTableProbe: deduplicates ids and finds their rows, once for lookup and update.
#include "cc/core/optimizer/sparse_apply.h"
#include "cc/core/unique/unique.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

class TableProbeOp : public tensorflow::OpKernel {
 public:
  explicit TableProbeOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    int64_t group = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group));
    constexpr int64_t kGroups = int64_t{1} << (63 - kCodePlaceBits);
    OP_REQUIRES(ctx, group >= 0 && group < kGroups,
                tensorflow::errors::InvalidArgument("TableProbe: group is ", group, ", but must be in [0, ", kGroups,
                                                    "); number the probes of one update from 0 on"));
    unique_options_.first = (group << kCodePlaceBits) + 1;
    unique_options_.with_counts = true;
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    const Tensor& ids = ctx->input(1);
    Tensor* codes = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, ids.shape(), &codes));
    KeyBatch keys;
    TfStatus allocated;  // TensorFlow's own error must come back from the callback as it was.
    const auto allocate = [&](int64_t size, int64_t** values, int64_t** counts) {
      allocated = AllocateVector(ctx, 1, size, values);
      if (allocated.ok()) allocated = AllocateVector(ctx, 2, size, counts);
      keys.keys = *values;
      keys.size = size;
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "outputs were not allocated");
    };
    const Status unique = Unique<int64_t, int64_t>(ids.flat<int64_t>().data(), ids.NumElements(), unique_options_,
                                                   codes->flat<int64_t>().data(), allocate, call.parallel_for());
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, call.Convert(unique));
    RowHandle* handles = nullptr;
    OP_REQUIRES_OK(ctx, AllocateVector(ctx, 3, keys.size, &handles));
    OP_REQUIRES_OK(ctx, call.Convert(call.table().FindHandles(keys, handles, call.parallel_for())));
  }

 private:
  static TfStatus AllocateVector(OpKernelContext* ctx, int output, int64_t size, int64_t** data) {
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {size}, &tensor));
    *data = tensor->flat<int64_t>().data();
    return tensorflow::OkStatus();
  }

  UniqueOptions unique_options_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableProbe").Device(tensorflow::DEVICE_CPU), TableProbeOp);

}  // namespace tf_booster
