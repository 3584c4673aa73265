// TfBoosterPoolLookups and its gradient: embeddings summed up by the rows of a batch, for many lookups at once.
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/pooling/segment_pooling.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

// What the two ops share: the segments of each lookup.
class PoolingOp : public tensorflow::OpKernel {
 public:
  explicit PoolingOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_zeroed, num_weights;
    std::vector<std::string> combiners;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_zeroed", &num_zeroed));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_weights", &num_weights));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("combiners", &combiners));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "zero_rows", num_zeroed, n_, true));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "weights", num_weights, n_, true));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "combiners", combiners.size(), n_, false));
    for (const std::string& name : combiners) {
      combiners_.push_back(name == "sum" ? Combiner::kSum : name == "mean" ? Combiner::kMean : Combiner::kSqrtN);
    }
  }

 protected:
  TfStatus Invalid(int i, const std::string& what) const {
    return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': lookup ", i, ": ", what);
  }

  // `distinct` and `dim` of each must be set. Inputs that do not fit together must not become reads outside of them.
  TfStatus ReadSegments(OpKernelContext* ctx, std::vector<PoolingSegments>* all) const {
    std::vector<const Tensor*> idx, row_splits, zero_rows, weights;
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "idx", 1, &idx));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "row_splits", 1, &row_splits));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "zero_rows", 1, &zero_rows));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "weights", 1, &weights));
    for (int i = 0; i < n_; ++i) {
      PoolingSegments& segments = (*all)[i];
      const int64_t ids = idx[i]->NumElements();
      segments.combiner = combiners_[i];
      segments.rows = row_splits[i]->NumElements() - 1;
      if (segments.rows < 0) return Invalid(i, "row_splits is empty");
      segments.row_splits = row_splits[i]->flat<int32_t>().data();
      segments.idx = idx[i]->flat<int32_t>().data();
      if (!CheckSegments(segments, ids)) return Invalid(i, "idx and row_splits are not those of these embeddings");
      if (!zero_rows.empty()) {
        if (zero_rows[i]->NumElements() != segments.rows)
          return Invalid(i, "zero_rows and row_splits differ in length");
        segments.zero_rows = zero_rows[i]->flat<bool>().data();
      }
      if (!weights.empty()) {
        if (weights[i]->NumElements() != ids) return Invalid(i, "weights and idx differ in length");
        segments.weights = weights[i]->flat<float>().data();
      }
    }
    return tensorflow::OkStatus();
  }

  int n() const { return n_; }

 private:
  int n_ = 0;
  std::vector<Combiner> combiners_;
};

template <class T>
class PoolLookupsOp : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> rows;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "rows", 2, &rows));
    std::vector<PoolingSegments> segments(n());
    for (int i = 0; i < n(); ++i) {
      segments[i].distinct = rows[i]->dim_size(0);
      segments[i].dim = rows[i]->dim_size(1);
    }
    OP_REQUIRES_OK(ctx, ReadSegments(ctx, &segments));
    std::vector<PoolingJob<T>> jobs(n());
    for (int i = 0; i < n(); ++i) {
      Tensor* pooled = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {segments[i].rows, segments[i].dim}, &pooled));
      jobs[i] = {segments[i], rows[i]->flat<T>().data(), pooled->flat<T>().data()};
    }
    TfParallelFor pf(ctx);
    Pool(jobs, pf);
  }
};

template <class T>
class PoolLookupsGradOp : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> grads, rows;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "grads", 2, &grads));
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "rows", 2, &rows));
    std::vector<PoolingSegments> segments(n());
    for (int i = 0; i < n(); ++i) {
      segments[i].distinct = rows[i]->dim_size(0);
      segments[i].dim = grads[i]->dim_size(1);
    }
    OP_REQUIRES_OK(ctx, ReadSegments(ctx, &segments));
    std::vector<PoolingGradientJob<T>> jobs(n());
    for (int i = 0; i < n(); ++i) {
      OP_REQUIRES(ctx, grads[i]->dim_size(0) == segments[i].rows && grads[i]->dim_size(1) == rows[i]->dim_size(1),
                  Invalid(i, "grads has shape " + grads[i]->shape().DebugString() + ", wanted [" +
                                 std::to_string(segments[i].rows) + "," + std::to_string(rows[i]->dim_size(1)) + "]"));
      Tensor* gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {segments[i].distinct, segments[i].dim}, &gradient));
      jobs[i] = {segments[i], grads[i]->flat<T>().data(), gradient->flat<T>().data()};
    }
    TfParallelFor pf(ctx);
    PoolGradient(jobs, pf);
  }
};

#define REGISTER_POOLING(T)                                                                                       \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookups").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),     \
                          PoolLookupsOp<T>);                                                                      \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookupsGrad").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          PoolLookupsGradOp<T>)

REGISTER_POOLING(float);
REGISTER_POOLING(double);

#undef REGISTER_POOLING

}  // namespace tf_booster
