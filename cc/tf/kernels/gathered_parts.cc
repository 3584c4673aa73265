#include "cc/tf/kernels/gathered_parts.h"

#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using TfStatus = tensorflow::Status;
using tensorflow::errors::InvalidArgument;

TfStatus GatheredParts::Read(tensorflow::OpKernelConstruction* ctx) {
  int n;
  TF_RETURN_IF_ERROR(ctx->GetAttr("N", &n));
  std::vector<int> parts;
  if (ctx->HasAttr("parts")) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("parts", &parts));
    TF_RETURN_IF_ERROR(ctx->GetAttr("mod", &mod_));
  } else {
    parts.assign(n, 1);
    mod_.assign(n, false);
  }
  for (const int p : parts) {
    if (p < 1)
      return InvalidArgument(ctx->def().op(), " '", ctx->def().name(), "': parts has ", p, ", wanted 1 or more");
    first_.push_back(first_.back() + p);
  }
  if (first_.back() == n && mod_.size() == parts.size()) return tensorflow::OkStatus();
  return InvalidArgument(ctx->def().op(), " '", ctx->def().name(), "': there are ", n, " resources; parts has ",
                         parts.size(), " entries of together ", first_.back(), ", mod ", mod_.size(), " entries");
}

TfStatus GatheredParts::Check(const tensorflow::OpKernel& op, int i,
                              const std::vector<const tensorflow::Tensor*>& values, RowParts* rule,
                              tensorflow::TensorShape* row) const {
  *rule = {static_cast<int64_t>(values.size()), 0, mod_[i]};
  for (const tensorflow::Tensor* value : values) {
    if (value->dims() < 1) return InvalidArgument("params must be at least 1 dimensional");
    tensorflow::TensorShape rest = value->shape();
    rest.RemoveDim(0);
    if (value != values[0] && rest != *row) {
      return InvalidArgument(op.type_string(), " '", op.name(), "': the parts of lookup ", i, " have rows of shapes ",
                             row->DebugString(), " and ", rest.DebugString(), "; wanted one shape");
    }
    *row = rest;
    rule->rows += value->dim_size(0);
  }
  for (size_t p = 0; p < values.size(); ++p) {
    if (values[p]->dim_size(0) == rule->Size(static_cast<int64_t>(p))) continue;
    return InvalidArgument(op.type_string(), " '", op.name(), "': part ", p, " of lookup ", i, " has ",
                           values[p]->dim_size(0), " rows; of ", rule->rows, " rows in ", values.size(),
                           " parts it should have ", rule->Size(static_cast<int64_t>(p)));
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
