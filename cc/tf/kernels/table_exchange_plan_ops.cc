// TfBoosterTableExpandPlan, TfBoosterTableSendPlan and TfBoosterTableReceivePlan: what a card is to do with the rows
// and gradients of an exchange.
#include <algorithm>
#include <vector>

#include "cc/core/exchange/card_plans.h"
#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/gradient_inputs.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

template <class T>
TfStatus WriteVector(OpKernelContext* ctx, int output, const std::vector<T>& values) {
  Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(output, {static_cast<int64_t>(values.size())}, &tensor));
  std::copy(values.begin(), values.end(), tensor->flat<T>().data());
  return tensorflow::OkStatus();
}

class TableExpandPlanOp final : public tensorflow::OpKernel {
 public:
  explicit TableExpandPlanOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_codes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("probe", &probe_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& splits = ctx->input(num_codes_);
    const Tensor& slots = ctx->input(num_codes_ + 1);
    const Tensor& starts = ctx->input(num_codes_ + 2);
    OP_REQUIRES(
        ctx,
        TensorShapeUtils::IsVector(slots.shape()) && TensorShapeUtils::IsMatrix(starts.shape()) &&
            probe_ < starts.dim_size(0) && splits.NumElements() == starts.dim_size(1),
        InvalidArgument("TableExpandPlan: splits, slots and starts have the shapes ", splits.shape().DebugString(),
                        ", ", slots.shape().DebugString(), " and ", starts.shape().DebugString(),
                        ", but must be [ranks], [u] and [probes, ranks], of more than ", probe_, " probes"));
    const int64_t ranks = starts.dim_size(1);
    int64_t words = 0;
    for (int64_t r = 0; r < ranks; ++r) words += splits.flat<int32_t>()(r);
    const int64_t* from = starts.flat<int64_t>().data() + probe_ * ranks;
    OP_REQUIRES_OK(ctx,
                   ToTensorFlow(CheckSlots(slots.flat<int64_t>().data(), slots.NumElements(), dim_, from, ranks, words),
                                "TableExpandPlan"));
    std::vector<ExpandPart> parts;
    std::vector<int32_t*> places;
    for (int i = 0; i < num_codes_; ++i) {
      const Tensor& codes = ctx->input(i);
      Tensor* out = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, codes.shape(), &out));
      parts.push_back({codes.flat<int64_t>().data(), codes.NumElements(), nullptr});
      places.push_back(out->flat<int32_t>().data());
    }
    TfParallelFor pf(ctx);
    OP_REQUIRES_OK(
        ctx, ToTensorFlow(PlanExpand(parts, dim_, slots.flat<int64_t>().data(), slots.NumElements(), from, places, pf),
                          "TableExpandPlan"));
  }

 private:
  int64_t dim_ = 0;
  int64_t probe_ = 0;
  int num_codes_ = 0;
};

// Inputs: codes of each gradient, slots of each probe, sent of each, notes.
class TableSendPlanOp final : public tensorflow::OpKernel {
 public:
  explicit TableSendPlanOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadGradientLayout(ctx, &layout_));
  }

  void Compute(OpKernelContext* ctx) override {
    GradientLayout layout = layout_;
    const int num_streams = static_cast<int>(layout.streams.size());
    std::vector<LocalGradient> gradients;
    std::vector<int64_t> sizes;
    for (int i = 0; i < num_streams; ++i) {
      const Tensor& codes = ctx->input(i);
      OP_REQUIRES(ctx, TensorShapeUtils::IsVector(codes.shape()),
                  InvalidArgument("TableSendPlan: codes[", i, "] has the shape ", codes.shape().DebugString(),
                                  ", but must be [n]; reshape it"));
      gradients.push_back({codes.flat<int64_t>().data(), nullptr, codes.NumElements()});
      sizes.push_back(codes.NumElements());
    }
    std::vector<SentProbe> probes;
    const int64_t* notes = nullptr;
    OP_REQUIRES_OK(ctx, ReadSentProbes(ctx, num_streams, &layout, &probes, &notes));
    Tensor* splits = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(3 * num_streams + 3, {layout.ranks}, &splits));
    SendPlan plan;
    TfParallelFor pf(ctx);
    const Status status = PlanSend(layout, probes, gradients, notes, splits->flat<int32_t>().data(), &plan, pf);
    OP_REQUIRES_OK(ctx, ToTensorFlow(status, "TableSendPlan"));
    for (int i = 0; i < num_streams; ++i) {
      OP_REQUIRES_OK(ctx, WriteVector(ctx, i, plan.streams[i].begins));
      OP_REQUIRES_OK(ctx, WriteVector(ctx, num_streams + i, plan.streams[i].terms));
      OP_REQUIRES_OK(ctx, WriteVector(ctx, 2 * num_streams + i, plan.streams[i].to));
    }
    OP_REQUIRES_OK(ctx, WriteVector(ctx, 3 * num_streams, plan.heads));
    OP_REQUIRES_OK(ctx, WriteVector(ctx, 3 * num_streams + 1, plan.head_begins));
    OP_REQUIRES_OK(ctx, WriteVector(ctx, 3 * num_streams + 2, plan.starts));
    OP_REQUIRES_OK(ctx, WriteVector(ctx, 3 * num_streams + 4, sizes));
  }

 private:
  GradientLayout layout_;
};

// Inputs: heads, splits, owner_codes of each probe, received of each, scales.
class TableReceivePlanOp final : public tensorflow::OpKernel {
 public:
  explicit TableReceivePlanOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadGradientLayout(ctx, &layout_));
    OP_REQUIRES_OK(ctx, limits_.Read(ctx, layout_));
  }

  void Compute(OpKernelContext* ctx) override {
    GradientLayout layout = layout_;
    const int num_streams = static_cast<int>(layout.streams.size());
    const Tensor& heads = ctx->input(0);
    const Tensor& splits = ctx->input(1);
    OP_REQUIRES_OK(ctx, CheckMessage(ctx, heads, splits, layout.ranks));
    std::vector<MergedProbe> probes;
    const float* scales = nullptr;
    OP_REQUIRES_OK(ctx, ReadMergedProbes(ctx, 2, &layout, &probes, &scales));
    const int32_t* of_rank = splits.flat<int32_t>().data();
    HeadsToRead to_read;
    OP_REQUIRES_OK(ctx, ToTensorFlow(FindHeads(layout, probes, INT32_MAX, of_rank, &to_read), "TableReceivePlan"));
    OP_REQUIRES(ctx, to_read.total == heads.NumElements(),
                InvalidArgument("TableReceivePlan: heads has ", heads.NumElements(), " words, but should have ",
                                to_read.total, "; give it as TableReceiveHeads made it of the same splits"));
    std::vector<const int32_t*> head_of;
    for (const int64_t at : to_read.at) head_of.push_back(heads.flat<int32_t>().data() + at);
    ReceivedGradients received;
    OP_REQUIRES_OK(
        ctx, ToTensorFlow(received.ParseHeads(layout, probes, head_of, to_read.words, to_read.begins, of_rank, scales),
                          "TableReceivePlan"));
    OP_REQUIRES_OK(ctx, WriteNotes(ctx, layout, received, 4 * num_streams));
    OP_REQUIRES_OK(ctx, limits_.Check(received, layout.ranks));
    std::vector<int64_t*> codes(num_streams);
    int64_t rows = 0;
    for (int i = 0; i < num_streams; ++i) {
      Tensor* indices = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {received.size(i)}, &indices));
      codes[i] = indices->flat<int64_t>().data();
      rows += received.size(i);
    }
    std::vector<RowTerms> terms(num_streams);
    std::vector<std::vector<float>> term_scales(num_streams);
    TfParallelFor pf(ctx);
    pf.Run(num_streams, 1 + 20 * rows / num_streams, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) received.PlanSum(i, codes[i], &terms[i], &term_scales[i]);
    });
    for (int i = 0; i < num_streams; ++i) {
      OP_REQUIRES_OK(ctx, WriteVector(ctx, num_streams + i, terms[i].begins));
      OP_REQUIRES_OK(ctx, WriteVector(ctx, 2 * num_streams + i, terms[i].terms));
      OP_REQUIRES_OK(ctx, WriteVector(ctx, 3 * num_streams + i, term_scales[i]));
    }
  }

 private:
  GradientLayout layout_;
  GradientLimits limits_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableExpandPlan").Device(tensorflow::DEVICE_CPU), TableExpandPlanOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSendPlan").Device(tensorflow::DEVICE_CPU), TableSendPlanOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableReceivePlan").Device(tensorflow::DEVICE_CPU), TableReceivePlanOp);

}  // namespace
}  // namespace tf_booster
