// TfBoosterTableProbe: deduplicates the ids of all features and finds their rows, once for lookup and update.
#include <vector>

#include "cc/core/optimizer/sparse_apply.h"
#include "cc/core/unique/unique_by_field.h"
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
    int num_ids = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_ids));
    OP_REQUIRES_OK(ctx, ReadFields(ctx, "fields", &fields_));
    if (fields_.empty()) fields_.assign(num_ids, 0);
    OP_REQUIRES(ctx, static_cast<int>(fields_.size()) == num_ids,
                tensorflow::errors::InvalidArgument("TableProbe: fields has ", fields_.size(),
                                                    " entries, but there are ", num_ids, " ids; give each its field"));
    constexpr int64_t kGroups = int64_t{1} << (63 - kCodePlaceBits);
    OP_REQUIRES(ctx, group >= 0 && group < kGroups,
                tensorflow::errors::InvalidArgument("TableProbe: group is ", group, ", but must be in [0, ", kGroups,
                                                    "); number the probes of one update from 0 on"));
    first_code_ = (group << kCodePlaceBits) + 1;
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    const int n = static_cast<int>(fields_.size());
    std::vector<FieldIds> arrays;
    for (int i = 0; i < n; ++i) {
      const Tensor& ids = ctx->input(1 + i);
      Tensor* codes = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, ids.shape(), &codes));
      arrays.push_back({ids.flat<int64_t>().data(), ids.NumElements(), fields_[i], codes->flat<int64_t>().data()});
    }
    KeyBatch keys;
    TfStatus allocated;  // TensorFlow's own error must come back from the callback as it was.
    const auto allocate = [&](int64_t size, DistinctPairs* out) {
      allocated = AllocateVector(ctx, n, size, &out->ids);
      if (allocated.ok()) allocated = AllocateFields(ctx, n + 1, size, &out->fields);
      if (allocated.ok()) allocated = AllocateVector(ctx, n + 2, size, &out->counts);
      keys = {out->ids, out->fields, size};
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "outputs were not allocated");
    };
    const Status unique = UniqueByField(arrays, first_code_, allocate, call.parallel_for());
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, call.Convert(unique));
    RowHandle* handles = nullptr;
    OP_REQUIRES_OK(ctx, AllocateVector(ctx, n + 3, keys.size, &handles));
    OP_REQUIRES_OK(ctx, call.Convert(call.table().FindHandles(keys, handles, call.parallel_for())));
  }

 private:
  static TfStatus AllocateVector(OpKernelContext* ctx, int output, int64_t size, int64_t** data) {
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {size}, &tensor));
    *data = tensor->flat<int64_t>().data();
    return tensorflow::OkStatus();
  }

  static TfStatus AllocateFields(OpKernelContext* ctx, int output, int64_t size, uint32_t** data) {
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {size}, &tensor));
    *data = reinterpret_cast<uint32_t*>(tensor->flat<int32_t>().data());
    return tensorflow::OkStatus();
  }

  std::vector<uint32_t> fields_;  // Of each input of ids.
  int64_t first_code_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableProbe").Device(tensorflow::DEVICE_CPU), TableProbeOp);

}  // namespace tf_booster
