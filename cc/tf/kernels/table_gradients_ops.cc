// TfBoosterTableSendGradients and TfBoosterTableReceiveGradients: gradients to the owners of their keys.
#include <vector>

#include "cc/core/exchange/gradient_exchange.h"
#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/gradient_inputs.h"
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
    const int64_t* notes = nullptr;
    OP_REQUIRES_OK(ctx, ReadSentProbes(ctx, 2 * num_streams, &layout, &probes, &notes));
    Tensor* splits = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {layout.ranks}, &splits));
    TfStatus allocated;
    const auto allocate = [&](int64_t words, int32_t** data) {
      allocated = memory_.Allocate(ctx, 0, words, data);
      return allocated.ok() ? Status() : Status(StatusCode::kInternal, "the message was not allocated");
    };
    TfParallelFor pf(ctx);
    const Status status = SendGradients(layout, probes, gradients, notes, allocate, splits->flat<int32_t>().data(), pf);
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
    OP_REQUIRES_OK(ctx, limits_.Read(ctx, layout_));
  }

  void Compute(OpKernelContext* ctx) override {
    GradientLayout layout = layout_;
    const int num_streams = static_cast<int>(layout.streams.size());
    const Tensor& message = ctx->input(0);
    const Tensor& splits = ctx->input(1);
    OP_REQUIRES_OK(ctx, CheckMessage(ctx, message, splits, layout.ranks));
    std::vector<MergedProbe> probes;
    const float* scales = nullptr;
    OP_REQUIRES_OK(ctx, ReadMergedProbes(ctx, 2, &layout, &probes, &scales));
    ReceivedGradients received;
    OP_REQUIRES_OK(ctx, ToTensorFlow(received.Parse(layout, probes, message.flat<int32_t>().data(),
                                                    message.NumElements(), splits.flat<int32_t>().data(), scales),
                                     "TableReceiveGradients"));
    std::vector<ReceivedGradients::Out> out;
    for (int i = 0; i < num_streams; ++i) {
      Tensor *indices = nullptr, *values = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {received.size(i)}, &indices));
      OP_REQUIRES_OK(ctx, ctx->allocate_output(num_streams + i, {received.size(i), layout.streams[i].dim}, &values));
      out.push_back({indices->flat<int64_t>().data(), values->flat<float>().data()});
    }
    OP_REQUIRES_OK(ctx, WriteNotes(ctx, layout, received, 2 * num_streams));
    OP_REQUIRES_OK(ctx, limits_.Check(received, layout.ranks));
    TfParallelFor pf(ctx);
    received.Sum(out, pf);
  }

 private:
  GradientLayout layout_;
  GradientLimits limits_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSendGradients").Device(tensorflow::DEVICE_CPU), TableSendGradientsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableReceiveGradients").Device(tensorflow::DEVICE_CPU), TableReceiveGradientsOp);

}  // namespace tf_booster
