#include "cc/tf/kernels/multi_sparse_apply_op.h"

#include <utility>

#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

MultiSparseApplyOpBase::MultiSparseApplyOpBase(tensorflow::OpKernelConstruction* ctx, int slots,
                                               dense::ScalarNames scalars, const char* flag)
    : VariablesOp(ctx, slots, std::move(scalars), flag) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("sum_duplicates", &sum_duplicates_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("distinct", &distinct_));
  if (distinct_.empty()) distinct_.resize(num_vars_);
  OP_REQUIRES(
      ctx, distinct_.size() == static_cast<size_t>(num_vars_),
      errors::InvalidArgument(Where(), "distinct has ", distinct_.size(), " entries, wanted none or ", num_vars_));
}

TfStatus MultiSparseApplyOpBase::CheckShapes(OpKernelContext* ctx, const LockedVariables& vars,
                                             std::vector<Rows>* rows) const {
  TF_RETURN_IF_ERROR(CheckSlots(vars));
  for (int i = 0; i < num_vars_; ++i) {
    const TensorShape& shape = vars.shape(i);
    if (shape.dims() == 0) {
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " is a scalar; wanted rows");
    }
    TensorShape row = shape;
    row.RemoveDim(0);
    rows->push_back({shape.dim_size(0), row.num_elements()});
    const TensorShape& indices = ctx->input(first_tensor() + i).shape();
    if (indices.dims() != 1) {
      return errors::InvalidArgument(Where(), "indices of ", requested_input(i), " have shape ", indices.DebugString(),
                                     "; wanted a vector");
    }
    TensorShape wanted = row;
    wanted.InsertDim(0, indices.dim_size(0));
    const TensorShape& grad = ctx->input(first_tensor() + num_vars_ + i).shape();
    if (grad != wanted) {
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " has shape ", shape.DebugString(),
                                     " and ", indices.dim_size(0), " indices, but its gradient has shape ",
                                     grad.DebugString(), "; wanted ", wanted.DebugString());
    }
  }
  return tensorflow::OkStatus();
}

TfStatus MultiSparseApplyOpBase::IndexError(int var, int64_t place, int64_t index, int64_t count) const {
  return errors::InvalidArgument(Where(), "indices of ", requested_input(var), ": index ", index, " at offset ", place,
                                 " is out of range; wanted [0, ", count, ")");
}

}  // namespace tf_booster
