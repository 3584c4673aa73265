// TfBoosterTableProbe on the host.
#include "cc/tf/kernels/table_probe_op.h"

#include "cc/core/unique/unique_by_field.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

class TableProbeOp final : public TableProbeOpBase {
 public:
  using TableProbeOpBase::TableProbeOpBase;

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckReadable());
    const int n = static_cast<int>(fields_.size());
    std::vector<FieldIds> arrays;
    for (int i = 0; i < n; ++i) {
      const Tensor& ids = ctx->input(1 + i);
      Tensor* codes = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, ids.shape(), &codes));
      arrays.push_back(
          {ids.flat<int64_t>().data(), ids.NumElements(), fields_[i], codes->flat<int64_t>().data(), skip_missing_[i]});
    }
    const bool counted = ctx->output_required(n + 2);  // By an update: predictions need no counts.
    KeyBatch keys;
    TfStatus allocated;  // TensorFlow's own error must come back from the callback as it was.
    const auto allocate = [&](int64_t size, DistinctPairs* out) {
      allocated = AllocateVector(ctx, n, size, &out->ids);
      if (allocated.ok()) allocated = AllocateFields(ctx, n + 1, size, &out->fields);
      if (allocated.ok() && counted) allocated = AllocateVector(ctx, n + 2, size, &out->counts);
      keys = {out->ids, out->fields, size};
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "outputs were not allocated");
    };
    const Status unique = UniqueByField(arrays, first_code_, counted, allocate, call.parallel_for());
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, call.Convert(unique));
    RowHandle* handles = nullptr;
    OP_REQUIRES_OK(ctx, AllocateVector(ctx, n + 3, keys.size, &handles));
    OP_REQUIRES_OK(ctx, call.Convert(call.table().FindHandles(keys, handles, call.parallel_for())));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableProbe").Device(tensorflow::DEVICE_CPU), TableProbeOp);

}  // namespace tf_booster
