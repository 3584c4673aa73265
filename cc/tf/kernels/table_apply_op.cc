#include "cc/tf/kernels/table_apply_op.h"

#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

TableApplyOpBase::TableApplyOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_probes_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("M", &num_gradients_));
  OP_REQUIRES_OK(ctx, ReadFields(ctx, "fields", &fields_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("check_numerics", &check_numerics_));
}

void TableApplyOpBase::Compute(OpKernelContext* ctx) {
  TableCall call(ctx);
  OP_REQUIRES_OK(ctx, call.Open());
  OP_REQUIRES_OK(ctx, call.CheckOwned());
  OP_REQUIRES_OK(ctx, CheckTable(call));
  SparseApplyBatch batch;
  OP_REQUIRES_OK(ctx, ReadBatch(ctx, call, &batch));
  OP_REQUIRES_OK(ctx, Apply(ctx, call, batch, 1 + 4 * num_probes_ + 2 * num_gradients_));
}

TfStatus TableApplyOpBase::CheckTable(const TableCall& call) const {
  const std::string& found = call.resource().config().optimizer;
  if (found == optimizer_name()) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(call.Where(), "the table's rows carry the slots of optimizer '", found,
                                             "', but the op needs those of '", optimizer_name(),
                                             "'; train a table with one optimizer");
}

// Inputs: table, keys of each probe, key_fields of each, counts of each, handles of each, indices of each lookup, grads
// of each, hyperparameters.
TfStatus TableApplyOpBase::ReadBatch(OpKernelContext* ctx, const TableCall& call, SparseApplyBatch* batch) const {
  for (int i = 0; i < num_probes_; ++i) {
    const Tensor& keys = ctx->input(1 + i);
    const Tensor& fields = ctx->input(1 + num_probes_ + i);
    const Tensor& counts = ctx->input(1 + 2 * num_probes_ + i);
    const Tensor& handles = ctx->input(1 + 3 * num_probes_ + i);
    const int64_t size = keys.NumElements();
    TF_RETURN_IF_ERROR(call.CheckVector(keys, "keys"));
    TF_RETURN_IF_ERROR(call.CheckVector(fields, "key_fields", size, "keys"));
    TF_RETURN_IF_ERROR(call.CheckVector(counts, "counts", size, "keys"));
    TF_RETURN_IF_ERROR(call.CheckVector(handles, "handles", size, "keys"));
    batch->probes.push_back({keys.flat<int64_t>().data(), FieldsOf(fields), counts.flat<int64_t>().data(),
                             handles.flat<int64_t>().data(), size});
  }
  for (int i = 0; i < num_gradients_; ++i) {
    const Tensor& indices = ctx->input(1 + 4 * num_probes_ + i);
    const Tensor& grad = ctx->input(1 + 4 * num_probes_ + num_gradients_ + i);
    TF_RETURN_IF_ERROR(call.CheckVector(indices, "indices"));
    TF_RETURN_IF_ERROR(call.CheckRows(grad, "grad", indices.NumElements(), "indices"));
    batch->gradients.push_back({indices.flat<int64_t>().data(), grad.flat<float>().data(), indices.NumElements()});
  }
  batch->grad_dim = call.resource().dim();
  batch->fields = fields_;
  batch->check_numerics = check_numerics_;
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
