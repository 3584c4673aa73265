// TfBoosterTableExport: one consistent picture of a table, for savers and users.
#include <string>

#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

class TableExportOp : public tensorflow::OpKernel {
 public:
  explicit TableExportOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_slots", &num_slots_));
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckDim(dim_));
    OP_REQUIRES(ctx, num_slots_ == 0 || num_slots_ == call.resource().num_slots(),
                tensorflow::errors::InvalidArgument(call.Where(), "num_slots is ", num_slots_, ", but the table has ",
                                                    call.resource().num_slots(), " slots; give the op the same, or 0"));
    // TensorFlow's own error must come back from the callback as it was, so it is kept here.
    TfStatus allocated;
    const auto allocate = [&](ContentsOut* out) {
      out->slots.assign(call.resource().num_slots(), nullptr);
      allocated = Allocate(ctx, call.resource().config().optimizer, out);
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "outputs were not allocated");
    };
    const Status exported = call.table().Export(allocate, call.parallel_for());
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, call.Convert(exported));
  }

 private:
  // Runs while the table stands still: makes the outputs for its counts, and lets Export write straight into them.
  TfStatus Allocate(OpKernelContext* ctx, const std::string& optimizer, ContentsOut* contents) {
    int output = 0;
    Tensor* tensor = nullptr;
    const auto vector = [&](int64_t size, int64_t** data) -> TfStatus {
      TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {size}, &tensor));
      *data = tensor->flat<int64_t>().data();
      return tensorflow::OkStatus();
    };
    const auto matrix = [&](float** data) -> TfStatus {
      TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {contents->rows, dim_}, &tensor));
      *data = tensor->flat<float>().data();
      return tensorflow::OkStatus();
    };
    const auto scalar = [&](int64_t value) -> TfStatus {
      TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {}, &tensor));
      tensor->scalar<int64_t>()() = value;
      return tensorflow::OkStatus();
    };
    TF_RETURN_IF_ERROR(vector(contents->rows, &contents->keys));
    TF_RETURN_IF_ERROR(matrix(&contents->values));
    for (int64_t slot = 0; slot < num_slots_; ++slot) TF_RETURN_IF_ERROR(matrix(&contents->slots[slot]));
    TF_RETURN_IF_ERROR(vector(contents->rows, &contents->frequencies));
    TF_RETURN_IF_ERROR(vector(contents->rows, &contents->last_steps));
    TF_RETURN_IF_ERROR(vector(contents->pending, &contents->pending_keys));
    TF_RETURN_IF_ERROR(vector(contents->pending, &contents->pending_counts));
    TF_RETURN_IF_ERROR(scalar(contents->step));
    TF_RETURN_IF_ERROR(scalar(static_cast<int64_t>(contents->seeds.at(0))));
    TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {}, &tensor));
    tensor->scalar<tensorflow::tstring>()() = optimizer;
    return tensorflow::OkStatus();
  }

  int64_t dim_ = 0;
  int64_t num_slots_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableExport").Device(tensorflow::DEVICE_CPU), TableExportOp);

}  // namespace tf_booster
