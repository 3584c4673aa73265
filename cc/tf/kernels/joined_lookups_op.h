// What TfBoosterJoinedPoolLookups shares on the CPU and on the GPU, and TfBoosterPoolVariables: which lookup goes
// where.
#ifndef TF_BOOSTER_CC_TF_KERNELS_JOINED_LOOKUPS_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_JOINED_LOOKUPS_OP_H_

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "cc/core/columns/column_copy.h"
#include "cc/tf/kernels/pooling_op.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// Lookups that are written where a join of columns would have copied them to.
template <class T>
class JoinedPoolLookupsOpBase : public PoolingOp {
 public:
  explicit JoinedPoolLookupsOpBase(tensorflow::OpKernelConstruction* ctx) : PoolingOp(ctx) {
    if (of_variables()) {
      tensorflow::DataTypeVector types;
      OP_REQUIRES_OK(ctx, ctx->GetAttr("Tothers", &types));
      num_others_ = static_cast<int>(types.size());
      const auto other = [](tensorflow::DataType type) { return type != tensorflow::DataTypeToEnum<T>::v(); };
      OP_REQUIRES(ctx, std::none_of(types.begin(), types.end(), other),
                  tensorflow::errors::InvalidArgument(ctx->def().op(), " '", ctx->def().name(),
                                                      "': others must have the dtype of the embeddings"));
    } else {
      OP_REQUIRES_OK(ctx, ctx->GetAttr("num_others", &num_others_));
    }
    OP_REQUIRES_OK(ctx, ctx->GetAttr("order", &order_));
    int num_apart;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_apart", &num_apart));
    const std::set<int64_t> parts(order_.begin(), order_.end());
    const int64_t lookups = std::distance(parts.begin(), parts.lower_bound(n()));
    const bool none = parts.empty() && num_others_ == 0 && of_variables();
    const bool fits = parts.size() == order_.size() &&
                      (none || (lookups > 0 && *parts.begin() >= 0 && *parts.rbegin() < n() + num_others_)) &&
                      lookups + num_apart == n() && static_cast<int64_t>(parts.size()) == lookups + num_others_;
    OP_REQUIRES(
        ctx, fits,
        tensorflow::errors::InvalidArgument(ctx->def().op(), " '", ctx->def().name(),
                                            "': order must have one lookup at least, N - num_apart in all, and ",
                                            "each of the ", num_others_, " others once"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadLookups(ctx, &lookups));
    std::vector<const tensorflow::Tensor*> others;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "others", 2, &others));
    const auto is_lookup = [this](int64_t part) { return part < n(); };
    const auto first = std::find_if(order_.begin(), order_.end(), is_lookup);
    const int64_t rows = first == order_.end() ? 0 : lookups.segments[*first].rows;
    std::vector<int64_t> first_column;
    int64_t columns = 0;
    for (const int64_t part : order_) {
      const bool own = is_lookup(part);
      const int64_t own_rows = own ? lookups.segments[part].rows : others[part - n()]->dim_size(0);
      OP_REQUIRES(ctx, own_rows == rows,
                  tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': ", own ? "lookup " : "others ",
                                                      own ? part : part - n(), " has ", own_rows,
                                                      " rows, but another part has ", rows, "; all must have as many"));
      first_column.push_back(columns);
      columns += own ? lookups.segments[part].dim : others[part - n()]->dim_size(1);
    }
    tensorflow::Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {rows, columns}, &out));
    T* const joined = out->flat<T>().data();
    std::vector<bool> is_joined(n(), false);
    std::vector<Target> beside, apart;
    Copies copied;
    for (size_t i = 0; i < order_.size(); ++i) {
      const int64_t part = order_[i];
      if (is_lookup(part)) {
        is_joined[part] = true;
        beside.push_back({static_cast<int>(part), joined + first_column[i], columns});
      } else {
        const tensorflow::Tensor& other = *others[part - n()];
        const int64_t width = other.dim_size(1) * static_cast<int64_t>(sizeof(T));
        copied.push_back({{other.tensor_data().data(), width}, joined + first_column[i]});
      }
    }
    for (int i = 0; i < n(); ++i) {
      if (is_joined[i]) continue;
      const PoolingSegments& s = lookups.segments[i];
      tensorflow::Tensor* pooled = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(1 + static_cast<int>(apart.size()), {s.rows, s.dim}, &pooled));
      apart.push_back({i, pooled->flat<T>().data(), s.dim});
    }
    OP_REQUIRES_OK(ctx, Run(ctx, lookups, beside, apart, copied, rows, columns));
  }

 protected:
  // Where a lookup goes, and how far its rows are from each other there.
  struct Target {
    int lookup;
    T* to;
    int64_t step;
  };
  // What else is joined, and where it goes.
  using Copies = std::vector<std::pair<Columns<const char>, T*>>;

  static const T* Rows(const Lookups& lookups, int i) { return lookups.rows[i]->flat<T>().data(); }

  // Run() on the CPU. far_apart: as of PoolingJob.
  tensorflow::Status RunOnCpu(tensorflow::OpKernelContext* ctx, const Lookups& lookups,
                              const std::vector<Target>& beside, const std::vector<Target>& apart, const Copies& copied,
                              int64_t columns, bool far_apart) const {
    const auto jobs_of = [&](const std::vector<Target>& targets) {
      std::vector<PoolingJob<T>> jobs;
      for (const auto& [i, to, step] : targets) {
        jobs.push_back({lookups.segments[i], Rows(lookups, i), to, step, lookups.wide_idx[i], far_apart});
      }
      return jobs;
    };
    TfParallelFor pf(ctx);
    const int64_t step = columns * static_cast<int64_t>(sizeof(T));
    PoolByRows<T>(jobs_of(beside), pf, [&](int64_t begin, int64_t end) {
      for (const auto& [from, to] : copied) PutColumns(from, begin, end, reinterpret_cast<char*>(to), step);
    });
    Pool(jobs_of(apart), pf);
    return tensorflow::OkStatus();
  }

 private:
  // beside: those of the joined tensor, which has so many rows and columns.
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const Lookups& lookups,
                                 const std::vector<Target>& beside, const std::vector<Target>& apart,
                                 const Copies& copied, int64_t rows, int64_t columns) const = 0;

  int num_others_ = 0;
  std::vector<int64_t> order_;  // The parts of `joined`: i is lookup i, N + i is others[i].
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_JOINED_LOOKUPS_OP_H_
