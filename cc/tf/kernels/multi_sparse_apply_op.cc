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
  std::vector<int64_t> parts, rows;
  std::vector<bool> mod;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("part", &part_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("parts", &parts));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("part_rows", &rows));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("mod", &mod));
  in_parts_ = !part_.empty();
  const size_t wanted = in_parts_ ? num_vars_ : 0;
  OP_REQUIRES(
      ctx, distinct_.size() == static_cast<size_t>(num_vars_),
      errors::InvalidArgument(Where(), "distinct has ", distinct_.size(), " entries, wanted none or ", num_vars_));
  OP_REQUIRES(ctx, part_.size() == wanted && parts.size() == wanted && rows.size() == wanted && mod.size() == wanted,
              errors::InvalidArgument(Where(), "part, parts, part_rows and mod have ", part_.size(), ", ", parts.size(),
                                      ", ", rows.size(), " and ", mod.size(), " entries, wanted none or ", num_vars_));
  for (size_t i = 0; i < wanted; ++i) {
    OP_REQUIRES(
        ctx, part_[i] >= 0 && part_[i] < parts[i] && rows[i] >= 0,
        errors::InvalidArgument(Where(), "variable ", requested_input(static_cast<int>(i)), " is part ", part_[i],
                                " of ", parts[i], " with ", rows[i], " rows; wanted a part in [0, parts)"));
    rules_.push_back({parts[i], rows[i], mod[i]});
  }
}

bool MultiSparseApplyOpBase::FollowsInTable(OpKernelContext* ctx, int i) const {
  if (!in_parts_ || i == 0) return false;
  const RowParts &mine = rules_[i], &before = rules_[i - 1];
  const auto same = [&](int first) {
    const tensorflow::StringPiece a = ctx->input(first + i).tensor_data(), b = ctx->input(first + i - 1).tensor_data();
    return a.data() == b.data() && a.size() == b.size();
  };
  return mine.parts == before.parts && mine.rows == before.rows && mine.mod == before.mod &&
         part_[i] == part_[i - 1] + 1 && distinct_[i] == distinct_[i - 1] && same(first_tensor()) &&
         same(first_tensor() + num_vars_);
}

TfStatus MultiSparseApplyOpBase::FindTables(OpKernelContext* ctx, const LockedVariables& vars,
                                            std::vector<Table>* tables) const {
  TF_RETURN_IF_ERROR(CheckSlots(vars));
  for (int i = 0; i < num_vars_; ++i) {
    const TensorShape& shape = vars.shape(i);
    if (shape.dims() == 0) {
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " is a scalar; wanted rows");
    }
    const RowParts rule = in_parts_ ? rules_[i] : RowParts{1, shape.dim_size(0), false};
    const int64_t part = in_parts_ ? part_[i] : 0;
    if (shape.dim_size(0) != rule.Size(part)) {
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " has ", shape.dim_size(0),
                                     " rows, but is part ", part, " of ", rule.parts, " of ", rule.rows,
                                     " rows; wanted ", rule.Size(part));
    }
    TensorShape row = shape;
    row.RemoveDim(0);
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
    if (FollowsInTable(ctx, i)) {
      ++tables->back().num_vars;
    } else {
      tables->push_back({rule, i, part, 1, row.num_elements(), distinct_[i]});
    }
  }
  return tensorflow::OkStatus();
}

TfStatus MultiSparseApplyOpBase::CheckScalarValues(const char* wrong) const {
  return wrong == nullptr ? tensorflow::OkStatus() : errors::InvalidArgument(Where(), wrong);
}

TfStatus MultiSparseApplyOpBase::IndexError(int var, int64_t place, int64_t index, int64_t count) const {
  return errors::InvalidArgument(Where(), "indices of ", requested_input(var), ": index ", index, " at offset ", place,
                                 " is out of range; wanted [0, ", count, ")");
}

}  // namespace tf_booster
