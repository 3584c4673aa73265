// TfBoosterPoolLookups and its gradient: embeddings summed up by the rows of a batch, for many lookups at once.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "cc/core/columns/column_copy.h"
#include "cc/core/pooling/segment_pooling.h"
#include "cc/tf/kernels/pooling_op.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

template <class T>
class PoolLookupsOp : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadLookups(ctx, &lookups));
    OP_REQUIRES_OK(ctx, CheckPlaces(lookups));
    std::vector<PoolingJob<T>> jobs(n());
    for (int i = 0; i < n(); ++i) {
      const PoolingSegments& s = lookups.segments[i];
      Tensor* pooled = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {s.rows, s.dim}, &pooled));
      jobs[i] = {s, lookups.rows[i]->flat<T>().data(), pooled->flat<T>().data()};
    }
    TfParallelFor pf(ctx);
    Pool(jobs, pf);
  }
};

// Lookups that are written where a join of columns would have copied them to.
template <class T>
class JoinedPoolLookupsOp final : public PoolingOp {
 public:
  explicit JoinedPoolLookupsOp(OpKernelConstruction* ctx) : PoolingOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_others", &num_others_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("order", &order_));
    int num_apart;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_apart", &num_apart));
    const std::set<int64_t> parts(order_.begin(), order_.end());
    const int64_t lookups = std::distance(parts.begin(), parts.lower_bound(n()));
    const bool fits = parts.size() == order_.size() && lookups > 0 && *parts.begin() >= 0 &&
                      *parts.rbegin() < n() + num_others_ && lookups + num_apart == n() &&
                      static_cast<int64_t>(parts.size()) == lookups + num_others_;
    OP_REQUIRES(ctx, fits,
                InvalidArgument(ctx->def().op(), " '", ctx->def().name(),
                                "': order must have one lookup at least, N - num_apart in all, and ", "each of the ",
                                num_others_, " others once"));
  }

  void Compute(OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadLookups(ctx, &lookups));
    OP_REQUIRES_OK(ctx, CheckPlaces(lookups));
    std::vector<const Tensor*> others;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "others", 2, &others));
    const auto is_lookup = [this](int64_t part) { return part < n(); };
    const int64_t rows = lookups.segments[*std::find_if(order_.begin(), order_.end(), is_lookup)].rows;
    std::vector<int64_t> first_column;
    int64_t columns = 0;
    for (const int64_t part : order_) {
      const bool own = is_lookup(part);
      const int64_t own_rows = own ? lookups.segments[part].rows : others[part - n()]->dim_size(0);
      OP_REQUIRES(
          ctx, own_rows == rows,
          InvalidArgument(type_string(), " '", name(), "': ", own ? "lookup " : "others ", own ? part : part - n(),
                          " has ", own_rows, " rows, but another part has ", rows, "; all must have as many"));
      first_column.push_back(columns);
      columns += own ? lookups.segments[part].dim : others[part - n()]->dim_size(1);
    }
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {rows, columns}, &out));
    T* const joined = out->flat<T>().data();
    std::vector<bool> is_joined(n(), false);
    std::vector<PoolingJob<T>> beside, apart;
    std::vector<std::pair<Columns<const char>, T*>> copied;  // And where to.
    for (size_t i = 0; i < order_.size(); ++i) {
      const int64_t part = order_[i];
      if (is_lookup(part)) {
        is_joined[part] = true;
        beside.push_back({lookups.segments[part], Rows(lookups, part), joined + first_column[i], columns});
      } else {
        const Tensor& other = *others[part - n()];
        const int64_t width = other.dim_size(1) * static_cast<int64_t>(sizeof(T));
        copied.push_back({{other.tensor_data().data(), width}, joined + first_column[i]});
      }
    }
    for (int i = 0; i < n(); ++i) {
      if (is_joined[i]) continue;
      const PoolingSegments& s = lookups.segments[i];
      Tensor* pooled = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(1 + static_cast<int>(apart.size()), {s.rows, s.dim}, &pooled));
      apart.push_back({s, Rows(lookups, i), pooled->flat<T>().data()});
    }
    TfParallelFor pf(ctx);
    const int64_t step = columns * static_cast<int64_t>(sizeof(T));
    PoolByRows<T>(beside, pf, [&](int64_t begin, int64_t end) {
      for (const auto& [from, to] : copied) PutColumns(from, begin, end, reinterpret_cast<char*>(to), step);
    });
    Pool(apart, pf);
  }

 private:
  static const T* Rows(const Lookups& lookups, int64_t i) { return lookups.rows[i]->flat<T>().data(); }

  int num_others_ = 0;
  std::vector<int64_t> order_;  // The parts of `joined`: i is lookup i, N + i is others[i].
};

template <class T>
class PoolLookupsGradOp : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, &lookups));
    OP_REQUIRES_OK(ctx, CheckPlaces(lookups));
    std::vector<PoolingGradientJob<T>> jobs(n());
    for (int i = 0; i < n(); ++i) {
      const PoolingSegments& s = lookups.segments[i];
      Tensor* gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {s.distinct, s.dim}, &gradient));
      const Tensor& grads = *lookups.grads[i];
      jobs[i] = {s, grads.flat<T>().data() + grad_column(i), gradient->flat<T>().data(), grads.dim_size(1)};
    }
    TfParallelFor pf(ctx);
    PoolGradient(jobs, pf);
  }
};

#define REGISTER_POOLING(T)                                                                                         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookups").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),       \
                          PoolLookupsOp<T>);                                                                        \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookupsGrad").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),   \
                          PoolLookupsGradOp<T>);                                                                    \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterJoinedPoolLookups").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          JoinedPoolLookupsOp<T>)

REGISTER_POOLING(float);
REGISTER_POOLING(double);

#undef REGISTER_POOLING

}  // namespace tf_booster
