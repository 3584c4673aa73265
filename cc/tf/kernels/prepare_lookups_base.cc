#include "cc/tf/kernels/prepare_lookups_op.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

PrepareLookupsBase::PrepareLookupsBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
  int num_sparse, num_shapes, num_weights, num_filled;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("num_sparse", &num_sparse));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("num_shapes", &num_shapes));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("num_weights", &num_weights));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("num_filled", &num_filled));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("prune_ids", &rules_.prune_ids));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("prune_weights", &rules_.prune_weights));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("fill_rows", &rules_.fill_rows));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("distinct", &distinct_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("default_ids", &default_ids_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("leading_dims", &leading_dims_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("hash_buckets", &hash_buckets_));
  sparse_ = num_sparse > 0;
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "indices", num_sparse, n_, true));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "dense_shapes", num_shapes, sparse_ && rules_.fill_rows ? n_ : 0, false));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "weights", num_weights, sparse_ ? n_ : 0, true));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "row_is_empty", num_filled, rules_.fill_rows ? n_ : 0, false));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "default_ids", default_ids_.size(), n_, false));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "leading_dims", leading_dims_.size(), n_, false));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "hash_buckets", hash_buckets_.size(), n_, false));
  OP_REQUIRES(ctx, sparse_ || rules_.fill_rows, Invalid("dense ids want fill_rows"));
  for (const int64_t dims : leading_dims_) OP_REQUIRES(ctx, dims >= 1, Invalid("leading_dims must be at least 1"));
}

TfStatus PrepareLookupsBase::Invalid(const std::string& what) const {
  return tensorflow::errors::InvalidArgument("PrepareLookups '", name(), "': ", what);
}

TfStatus PrepareLookupsBase::ReadTensors(OpKernelContext* ctx, Tensors* tensors, std::vector<Shape>* shapes) const {
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "values", sparse_ ? 1 : -1, &tensors->values));
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "indices", -1, &tensors->indices));
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "dense_shapes", 1, &tensors->dense_shapes));
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "weights", 1, &tensors->weights));
  for (int i = 0; i < n_; ++i) {
    const Tensor& values = *tensors->values[i];
    Shape shape;
    shape.n = values.NumElements();
    if (!tensors->weights.empty() && tensors->weights[i]->NumElements() != shape.n) {
      return Invalid("weights and values differ in length");
    }
    if (sparse_) {
      const Tensor* dense_shape = tensors->dense_shapes.empty() ? nullptr : tensors->dense_shapes[i];
      TF_RETURN_IF_ERROR(SparseShape(*tensors->indices[i], dense_shape, leading_dims_[i], &shape));
    } else {
      if (values.dims() < leading_dims_[i]) return Invalid("leading_dims is larger than the rank of the ids");
      shape.rows = shape.width = 1;
      for (int d = 0; d < values.dims(); ++d) (d < leading_dims_[i] ? shape.rows : shape.width) *= values.dim_size(d);
    }
    shapes->push_back(shape);
  }
  return tensorflow::OkStatus();
}

TfStatus PrepareLookupsBase::SparseShape(const Tensor& indices, const Tensor* dense_shape, int64_t leading_dims,
                                         Shape* shape) const {
  if (indices.dims() < 1 || indices.dims() > 2 || indices.dim_size(0) != shape->n) {
    return Invalid("indices have shape " + indices.shape().DebugString() + ", wanted [" + std::to_string(shape->n) +
                   ", rank]");
  }
  shape->rank = indices.dims() == 2 ? indices.dim_size(1) : 1;
  if (dense_shape != nullptr && dense_shape->NumElements() != shape->rank) {
    return Invalid("dense_shape and indices differ in rank");
  }
  if (shape->rank < leading_dims) return Invalid("leading_dims is larger than the rank of the ids");
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
