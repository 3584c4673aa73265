// TfBoosterTableExport: one consistent picture of some fields of a table, for savers and users.
#include <string>
#include <vector>

#include "cc/core/hash_table/memory_limit.h"
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
    int num_fields = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_fields));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("S", &num_slots_));
    OP_REQUIRES_OK(ctx, ReadFields(ctx, "fields", &fields_));
    OP_REQUIRES(ctx, static_cast<int>(fields_.size()) == num_fields || (fields_.empty() && num_fields == 1),
                tensorflow::errors::InvalidArgument("TableExport: fields has ", fields_.size(), " entries, but N is ",
                                                    num_fields, "; both must be the same"));
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, fields_.empty() ? call.OpenField() : call.Open());
    OP_REQUIRES_OK(ctx, call.CheckDim(dim_));
    const std::vector<uint32_t> fields = fields_.empty() ? std::vector<uint32_t>{call.field()} : fields_;
    const int64_t slots = call.resource().num_slots(), wanted = slots * static_cast<int64_t>(fields.size());
    OP_REQUIRES(ctx, num_slots_ == 0 || num_slots_ == wanted,
                tensorflow::errors::InvalidArgument(call.Where(), "S is ", num_slots_, ", but the table has ", slots,
                                                    " slots; for each field give the op as many, or 0"));
    // TensorFlow's own error must come back from the callback as it was, so it is kept here.
    TfStatus allocated;
    const auto allocate = [&](std::vector<ContentsOut>* out) {
      allocated = CheckRoom(call, *out);
      if (allocated.ok()) allocated = Allocate(ctx, call.resource().config().optimizer, out);
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "outputs were not allocated");
    };
    const Status exported = call.table().Export(fields, allocate, call.parallel_for());
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, call.Convert(exported));
  }

 private:
  // Linux grants what it does not have, and kills the process when it is touched.
  TfStatus CheckRoom(const TableCall& call, const std::vector<ContentsOut>& fields) const {
    int64_t bytes = 0, left = 0;
    for (const ContentsOut& field : fields) {
      const int64_t columns = dim_ * (num_slots_ > 0 ? 1 + static_cast<int64_t>(field.slots.size()) : 1);
      bytes += field.rows * (columns * 4 + 24) + field.pending * 16;
    }
    if (MachineMemory()->Grant(bytes, &left)) return tensorflow::OkStatus();
    return tensorflow::errors::ResourceExhausted(
        call.Where(), "as tensors its rows take ", bytes, " bytes, but only ", left,
        " are left on this machine or in its cgroup; save it by tf.compat.v1.train.Saver.save, which writes a table "
        "some megabytes at a time, or give the process more memory");
  }

  // Runs while the table stands still: makes the outputs for its counts, and lets Export write straight into them.
  TfStatus Allocate(OpKernelContext* ctx, const std::string& optimizer, std::vector<ContentsOut>* fields) {
    int output = 0;
    Tensor* tensor = nullptr;
    const auto vectors = [&](int64_t ContentsOut::*size, int64_t* ContentsOut::*data) -> TfStatus {
      for (ContentsOut& field : *fields) {
        TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {field.*size}, &tensor));
        field.*data = tensor->flat<int64_t>().data();
      }
      return tensorflow::OkStatus();
    };
    const auto matrix = [&](const ContentsOut& field, float** data) -> TfStatus {
      TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {field.rows, dim_}, &tensor));
      *data = tensor->flat<float>().data();
      return tensorflow::OkStatus();
    };
    const auto scalar = [&](int64_t value) -> TfStatus {
      TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {}, &tensor));
      tensor->scalar<int64_t>()() = value;
      return tensorflow::OkStatus();
    };
    TF_RETURN_IF_ERROR(vectors(&ContentsOut::rows, &ContentsOut::keys));
    for (ContentsOut& field : *fields) TF_RETURN_IF_ERROR(matrix(field, &field.values));
    for (ContentsOut& field : *fields) {
      for (float*& slot : field.slots) {
        if (num_slots_ > 0) TF_RETURN_IF_ERROR(matrix(field, &slot));
      }
    }
    TF_RETURN_IF_ERROR(vectors(&ContentsOut::rows, &ContentsOut::frequencies));
    TF_RETURN_IF_ERROR(vectors(&ContentsOut::rows, &ContentsOut::last_steps));
    TF_RETURN_IF_ERROR(vectors(&ContentsOut::pending, &ContentsOut::pending_keys));
    TF_RETURN_IF_ERROR(vectors(&ContentsOut::pending, &ContentsOut::pending_counts));
    for (const ContentsOut& field : *fields) TF_RETURN_IF_ERROR(scalar(field.step));
    for (const ContentsOut& field : *fields) TF_RETURN_IF_ERROR(scalar(static_cast<int64_t>(*field.seed)));
    TF_RETURN_IF_ERROR(ctx->allocate_output(output++, {}, &tensor));
    tensor->scalar<tensorflow::tstring>()() = optimizer;
    return tensorflow::OkStatus();
  }

  int64_t dim_ = 0;
  int64_t num_slots_ = 0;         // Of all fields together.
  std::vector<uint32_t> fields_;  // Empty: the one that the handle is of.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableExport").Device(tensorflow::DEVICE_CPU), TableExportOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableExport")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("table")
                            .HostMemory("keys")
                            .HostMemory("values")
                            .HostMemory("slots")
                            .HostMemory("frequencies")
                            .HostMemory("last_use_steps")
                            .HostMemory("pending_keys")
                            .HostMemory("pending_counts")
                            .HostMemory("step")
                            .HostMemory("seed")
                            .HostMemory("optimizer"),
                        TableExportOp);

}  // namespace tf_booster
