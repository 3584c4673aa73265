// TfBoosterTableSendGradients and TfBoosterTableReceiveGradients: gradients to the owners of their keys.
#include <algorithm>
#include <string>
#include <vector>

#include "cc/core/exchange/gradient_exchange.h"
#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

// Inputs: codes of each gradient, grads of each, slots of each probe, sent of each, notes.
class TableSendGradientsOp : public tensorflow::OpKernel {
 public:
  explicit TableSendGradientsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadGradientLayout(ctx, &layout_));
  }

  void Compute(OpKernelContext* ctx) override {
    GradientLayout layout = layout_;
    const int num_streams = static_cast<int>(layout.streams.size());
    const int num_probes = static_cast<int>(layout.groups.size());
    std::vector<LocalGradient> gradients;
    for (int i = 0; i < num_streams; ++i) {
      const Tensor& codes = ctx->input(i);
      const Tensor& grads = ctx->input(num_streams + i);
      OP_REQUIRES(ctx,
                  TensorShapeUtils::IsVector(codes.shape()) && TensorShapeUtils::IsMatrix(grads.shape()) &&
                      grads.dim_size(0) == codes.NumElements() && grads.dim_size(1) == layout.streams[i].dim,
                  InvalidArgument("TableSendGradients: codes[", i, "] and grads[", i, "] have the shapes ",
                                  codes.shape().DebugString(), " and ", grads.shape().DebugString(),
                                  ", but must be [n] and [n, ", layout.streams[i].dim, "]; reshape them"));
      gradients.push_back({codes.flat<int64_t>().data(), grads.flat<float>().data(), codes.NumElements()});
    }
    std::vector<SentProbe> probes;
    for (int p = 0; p < num_probes; ++p) {
      const Tensor& slots = ctx->input(2 * num_streams + p);
      const Tensor& sent = ctx->input(2 * num_streams + num_probes + p);
      OP_REQUIRES_OK(ctx, ReadSegments(ctx, sent, "sent", layout.ranks, p, &layout));
      int64_t keys = 0;
      for (int64_t i = 0; i < sent.NumElements(); ++i) keys += sent.flat<int32_t>()(i);
      OP_REQUIRES(ctx, keys == slots.NumElements(),
                  InvalidArgument("TableSendGradients: slots[", p, "] has ", slots.NumElements(), " entries, but sent[",
                                  p, "] speaks of ", keys, " keys; give both as TableRoute made them"));
      probes.push_back({slots.flat<int64_t>().data(), slots.NumElements(), sent.flat<int32_t>().data()});
    }
    const Tensor& notes = ctx->input(2 * num_streams + 2 * num_probes);
    OP_REQUIRES(ctx, notes.NumElements() == layout.num_notes,
                InvalidArgument("TableSendGradients: notes has ", notes.NumElements(), " entries, but num_notes is ",
                                layout.num_notes));
    Tensor* splits = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {layout.ranks}, &splits));
    TfStatus allocated;
    const auto allocate = [&](int64_t words, int32_t** data) {
      allocated = memory_.Allocate(ctx, 0, words, data);
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "the message was not allocated");
    };
    TfParallelFor pf(ctx);
    const Status status = SendGradients(layout, probes, gradients, notes.flat<int64_t>().data(), allocate,
                                        splits->flat<int32_t>().data(), pf);
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, ToTensorFlow(status, "TableSendGradients"));
  }

 private:
  GradientLayout layout_;
  MessageMemory memory_;
};

// Inputs: message, splits, owner_codes of each probe, received of each, scales.
class TableReceiveGradientsOp : public tensorflow::OpKernel {
 public:
  explicit TableReceiveGradientsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadGradientLayout(ctx, &layout_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("limits", &limits_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("limit_names", &limit_names_));
    OP_REQUIRES(
        ctx, limits_.size() == limit_names_.size() && 2 * static_cast<int64_t>(limits_.size()) <= layout_.num_notes,
        InvalidArgument("TableReceiveGradients: there are ", limits_.size(), " limits, ", limit_names_.size(),
                        " limit_names and ", layout_.num_notes, " notes; give each limit a name and two notes"));
  }

  void Compute(OpKernelContext* ctx) override {
    GradientLayout layout = layout_;
    const int num_streams = static_cast<int>(layout.streams.size());
    const int num_probes = static_cast<int>(layout.groups.size());
    const Tensor& message = ctx->input(0);
    const Tensor& splits = ctx->input(1);
    const Tensor& scales = ctx->input(2 + 2 * num_probes);
    OP_REQUIRES_OK(ctx, CheckMessage(ctx, message, splits, layout.ranks));
    OP_REQUIRES(ctx, scales.NumElements() == layout.ranks,
                InvalidArgument("TableReceiveGradients: scales has ", scales.NumElements(), " entries for ",
                                layout.ranks, " ranks"));
    std::vector<MergedProbe> probes;
    for (int p = 0; p < num_probes; ++p) {
      const Tensor& codes = ctx->input(2 + p);
      const Tensor& received = ctx->input(2 + num_probes + p);
      OP_REQUIRES_OK(ctx, ReadSegments(ctx, received, "received", layout.ranks + 1, p, &layout));
      int64_t keys = 0;
      for (int64_t i = 0; i < layout.ranks * layout.num_segments[p]; ++i) keys += received.flat<int32_t>()(i);
      OP_REQUIRES(ctx, keys == codes.NumElements(),
                  InvalidArgument("TableReceiveGradients: owner_codes[", p, "] has ", codes.NumElements(),
                                  " entries, but received[", p, "] speaks of ", keys,
                                  " keys; give both as TableServe made them"));
      probes.push_back({codes.flat<int64_t>().data(), codes.NumElements(), received.flat<int32_t>().data()});
    }
    ReceivedGradients received;
    OP_REQUIRES_OK(ctx,
                   ToTensorFlow(received.Parse(layout, probes, message.flat<int32_t>().data(), message.NumElements(),
                                               splits.flat<int32_t>().data(), scales.flat<float>().data()),
                                "TableReceiveGradients"));
    std::vector<ReceivedGradients::Out> out;
    for (int i = 0; i < num_streams; ++i) {
      Tensor *indices = nullptr, *values = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {received.size(i)}, &indices));
      OP_REQUIRES_OK(ctx, ctx->allocate_output(num_streams + i, {received.size(i), layout.streams[i].dim}, &values));
      out.push_back({indices->flat<int64_t>().data(), values->flat<float>().data()});
    }
    Tensor* notes = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2 * num_streams, {layout.ranks, layout.num_notes}, &notes));
    for (int32_t r = 0; r < layout.ranks; ++r) {
      std::copy_n(received.notes(r), layout.num_notes, notes->flat<int64_t>().data() + r * layout.num_notes);
    }
    OP_REQUIRES_OK(ctx, CheckLimits(received));
    TfParallelFor pf(ctx);
    received.Sum(out, pf);
  }

 private:
  // All ranks see the same notes, and so fail together, before any of them has changed its tables.
  TfStatus CheckLimits(const ReceivedGradients& received) const {
    for (size_t i = 0; i < limits_.size(); ++i) {
      int64_t rows = 0, added = 0;
      for (int32_t r = 0; r < layout_.ranks; ++r) {
        rows += received.notes(r)[2 * i];
        added += received.notes(r)[2 * i + 1];
      }
      if (rows + added <= limits_[i]) continue;
      return tensorflow::errors::ResourceExhausted(
          "TableReceiveGradients '", limit_names_[i], "': the table has ", rows, " rows on ", layout_.ranks,
          " ranks and needs ", added, " more, above its limit max_rows=", limits_[i],
          "; raise max_rows, or let rows leave by an eviction or enter by a min_frequency");
    }
    return tensorflow::OkStatus();
  }

  GradientLayout layout_;
  std::vector<int64_t> limits_;
  std::vector<std::string> limit_names_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSendGradients").Device(tensorflow::DEVICE_CPU), TableSendGradientsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableReceiveGradients").Device(tensorflow::DEVICE_CPU), TableReceiveGradientsOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSendGradients")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("codes")
                            .HostMemory("grads")
                            .HostMemory("slots")
                            .HostMemory("sent")
                            .HostMemory("notes")
                            .HostMemory("message")
                            .HostMemory("splits"),
                        TableSendGradientsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableReceiveGradients")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("message")
                            .HostMemory("splits")
                            .HostMemory("owner_codes")
                            .HostMemory("received")
                            .HostMemory("scales")
                            .HostMemory("indices")
                            .HostMemory("values")
                            .HostMemory("notes"),
                        TableReceiveGradientsOp);

}  // namespace tf_booster
