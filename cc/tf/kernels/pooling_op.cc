#include "cc/tf/kernels/pooling_op.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

PoolingOp::PoolingOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
  int num_zeroed, num_weights;
  std::vector<std::string> combiners;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("num_zeroed", &num_zeroed));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("num_weights", &num_weights));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("combiners", &combiners));
  of_variables_ = ctx->HasAttr("Tids");
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "zero_rows", num_zeroed, n_, true));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "weights", num_weights, n_, true));
  OP_REQUIRES_OK(ctx, CheckListSize(ctx, "combiners", combiners.size(), n_, false));
  if (ctx->HasAttr("grad_columns")) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("grad_columns", &grad_columns_));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "grad_columns", grad_columns_.size(), n_, true));
  }
  for (const std::string& name : combiners) {
    combiners_.push_back(name == "sum" ? Combiner::kSum : name == "mean" ? Combiner::kMean : Combiner::kSqrtN);
  }
}

TfStatus PoolingOp::Invalid(int i, const std::string& what) const {
  return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': lookup ", i, ": ", what);
}

TfStatus PoolingOp::ReadRows(OpKernelContext* ctx, Lookups* lookups) const {
  return TensorsOf(ctx, "rows", 2, &lookups->rows);
}

TfStatus PoolingOp::ReadLookups(OpKernelContext* ctx, Lookups* lookups) const {
  TF_RETURN_IF_ERROR(ReadRows(ctx, lookups));
  return ReadSegments(ctx, lookups);
}

TfStatus PoolingOp::ReadGradients(OpKernelContext* ctx, Lookups* lookups) const {
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "grads", 2, &lookups->grads));
  TF_RETURN_IF_ERROR(ReadLookups(ctx, lookups));
  for (int i = 0; i < n_; ++i) {
    const PoolingSegments& s = lookups->segments[i];
    const Tensor& grads = *lookups->grads[i];
    const int64_t first = grad_column(i), width = grads.dim_size(1);
    const bool fits = grad_columns_.empty() ? width == s.dim : first >= 0 && first <= width - s.dim;
    if (grads.dim_size(0) != s.rows || !fits) {
      return Invalid(i, "grads has shape " + grads.shape().DebugString() + ", wanted [" + std::to_string(s.rows) + "," +
                            (grad_columns_.empty() ? "" : std::to_string(first) + " + ") + std::to_string(s.dim) + "]");
    }
  }
  return tensorflow::OkStatus();
}

TfStatus PoolingOp::ReadSegments(OpKernelContext* ctx, Lookups* lookups) const {
  std::vector<const Tensor*> idx, row_splits, zero_rows, weights;
  const char* const places = of_variables_ ? "ids" : "idx";
  TF_RETURN_IF_ERROR(TensorsOf(ctx, places, 1, &idx));
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "row_splits", 1, &row_splits));
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "zero_rows", 1, &zero_rows));
  TF_RETURN_IF_ERROR(TensorsOf(ctx, "weights", 1, &weights));
  for (int i = 0; i < n_; ++i) {
    PoolingSegments segments;
    const int64_t ids = idx[i]->NumElements();
    segments.combiner = combiners_[i];
    segments.distinct = lookups->rows[i]->dim_size(0);
    segments.dim = lookups->rows[i]->dim_size(1);
    segments.rows = row_splits[i]->NumElements() - 1;
    if (segments.rows < 0) return Invalid(i, "row_splits is empty");
    segments.row_splits = row_splits[i]->flat<int32_t>().data();
    static const int64_t kNone = 0;  // An empty tensor may have no memory, but null would stand for idx.
    const bool wide = idx[i]->dtype() == tensorflow::DT_INT64;
    lookups->wide_idx.push_back(!wide ? nullptr : ids > 0 ? idx[i]->flat<int64_t>().data() : &kNone);
    if (!wide) segments.idx = idx[i]->flat<int32_t>().data();
    if (!zero_rows.empty()) {
      if (zero_rows[i]->NumElements() != segments.rows) return Invalid(i, "zero_rows and row_splits differ in length");
      segments.zero_rows = zero_rows[i]->flat<bool>().data();
    }
    if (!weights.empty()) {
      if (weights[i]->NumElements() != ids)
        return Invalid(i, std::string("weights and ") + places + " differ in length");
      segments.weights = weights[i]->flat<float>().data();
    }
    lookups->segments.push_back(segments);
    lookups->ids.push_back(ids);
  }
  return tensorflow::OkStatus();
}

TfStatus PoolingOp::CheckPlaces(const Lookups& lookups) const {
  for (int i = 0; i < n_; ++i) {
    if (!CheckSegments(lookups.segments[i], lookups.ids[i])) {
      return Invalid(i, "idx and row_splits are not those of these embeddings");
    }
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
