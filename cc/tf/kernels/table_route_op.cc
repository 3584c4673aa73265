// TfBoosterTableRoute: deduplicates the ids of all features and writes the message for their owners.
#include <algorithm>
#include <vector>

#include "cc/core/exchange/id_exchange.h"
#include "cc/core/unique/unique_by_field.h"
#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/skip_missing.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

class TableRouteOp : public tensorflow::OpKernel {
 public:
  explicit TableRouteOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int64_t> first_segments, segments;
    int num_ids = 0;
    OP_REQUIRES_OK(ctx, ReadExchangeLayout(ctx, &layout_, &groups_, &first_segments));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_ids));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ids_segments", &segments));
    OP_REQUIRES_OK(ctx, ReadSkipMissing(ctx, "TableRoute", num_ids, &skip_missing_));
    const int64_t num_segments = layout_.num_segments();
    const auto outside = [&](int64_t segment) { return segment < 0 || segment >= num_segments; };
    OP_REQUIRES(ctx,
                static_cast<int>(segments.size()) == num_ids && std::none_of(segments.begin(), segments.end(), outside),
                InvalidArgument("TableRoute: ids_segments must have, for each of the ", num_ids, " ids, one of the ",
                                num_segments, " segments"));
    members_.resize(num_segments);
    for (int i = 0; i < num_ids; ++i) members_[segments[i]].push_back(i);
  }

  void Compute(OpKernelContext* ctx) override {
    TfParallelFor pf(ctx);
    const int num_ids = ctx->num_inputs() - 1;
    const int num_probes = static_cast<int>(groups_.size());
    const Tensor& rows = ctx->input(num_ids);
    OP_REQUIRES(
        ctx, tensorflow::TensorShapeUtils::IsScalar(rows.shape()),
        InvalidArgument("TableRoute: rows has the shape ", rows.shape().DebugString(), ", but must be a scalar"));
    std::vector<int64_t*> codes(num_ids);
    for (int i = 0; i < num_ids; ++i) {
      Tensor* out = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, ctx->input(i).shape(), &out));
      codes[i] = out->flat<int64_t>().data();
    }
    std::vector<std::vector<int64_t>> keys(num_probes), counts(num_probes);
    std::vector<std::vector<uint32_t>> fields(num_probes);
    std::vector<RoutedProbe> routed;
    int64_t segment = 0;
    for (int p = 0; p < num_probes; ++p) {
      std::vector<FieldIds> arrays;
      for (const uint32_t field : layout_.probes[p].fields) {
        for (const int i : members_[segment]) {
          const Tensor& ids = ctx->input(i);
          arrays.push_back({ids.flat<int64_t>().data(), ids.NumElements(), field, codes[i], skip_missing_[i]});
        }
        ++segment;
      }
      const bool counted = layout_.probes[p].counted;
      const auto allocate = [&](int64_t size, DistinctPairs* out) {
        keys[p].resize(size);
        fields[p].resize(size);
        if (counted) counts[p].resize(size);
        *out = {keys[p].data(), fields[p].data(), counts[p].data()};
        return Status();
      };
      const Status unique = UniqueByField(arrays, FirstCodeOf(groups_[p]), counted, allocate, pf);
      OP_REQUIRES_OK(ctx, ToTensorFlow(unique, "TableRoute"));
      const int64_t size = static_cast<int64_t>(keys[p].size());
      Tensor *slots = nullptr, *sent = nullptr;
      const int64_t num_fields = static_cast<int64_t>(layout_.probes[p].fields.size());
      OP_REQUIRES_OK(ctx, ctx->allocate_output(num_ids + 2 + p, {size}, &slots));
      OP_REQUIRES_OK(ctx, ctx->allocate_output(num_ids + 2 + num_probes + p, {layout_.ranks, num_fields}, &sent));
      routed.push_back({keys[p].data(), fields[p].data(), counts[p].data(), size, slots->flat<int64_t>().data(),
                        sent->flat<int32_t>().data()});
    }
    Tensor *splits = nullptr, *starts = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(num_ids + 1, {layout_.ranks}, &splits));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(num_ids + 2 + 2 * num_probes, {num_probes, layout_.ranks}, &starts));
    std::vector<int64_t> reply_splits(layout_.ranks);
    TfStatus allocated;
    const auto allocate = [&](int64_t words, int32_t** data) {
      allocated = memory_.Allocate(ctx, num_ids, words, data);
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "the message was not allocated");
    };
    const Status status = RouteIds(layout_, rows.scalar<float>()(), routed, allocate, splits->flat<int32_t>().data(),
                                   starts->flat<int64_t>().data(), reply_splits.data(), pf);
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, ToTensorFlow(status, "TableRoute"));
  }

 private:
  ExchangeLayout layout_;
  std::vector<int64_t> groups_;
  std::vector<std::vector<int>> members_;  // Of each segment: its ids among the inputs.
  std::vector<bool> skip_missing_;         // Of each input of ids.
  MessageMemory memory_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableRoute").Device(tensorflow::DEVICE_CPU), TableRouteOp);

}  // namespace tf_booster
