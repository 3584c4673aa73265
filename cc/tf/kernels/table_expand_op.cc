// TfBoosterTableExpand: embeddings of codes, out of the rows that their owners sent.
#include <vector>

#include "cc/core/exchange/id_exchange.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;

class TableExpandOp : public tensorflow::OpKernel {
 public:
  explicit TableExpandOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_codes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("probe", &probe_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& message = ctx->input(num_codes_);
    const Tensor& slots = ctx->input(num_codes_ + 1);
    const Tensor& starts = ctx->input(num_codes_ + 2);
    OP_REQUIRES(ctx,
                TensorShapeUtils::IsVector(message.shape()) && TensorShapeUtils::IsVector(slots.shape()) &&
                    TensorShapeUtils::IsMatrix(starts.shape()) && probe_ < starts.dim_size(0),
                tensorflow::errors::InvalidArgument(
                    "TableExpand: message, slots and starts have the shapes ", message.shape().DebugString(), ", ",
                    slots.shape().DebugString(), " and ", starts.shape().DebugString(),
                    ", but must be [n], [u] and [probes, ranks], of more than ", probe_, " probes"));
    const int64_t ranks = starts.dim_size(1);
    const int64_t* from = starts.flat<int64_t>().data() + probe_ * ranks;
    OP_REQUIRES_OK(ctx, ToTensorFlow(CheckSlots(slots.flat<int64_t>().data(), slots.NumElements(), dim_, from, ranks,
                                                message.NumElements()),
                                     "TableExpand"));
    std::vector<ExpandPart> parts;
    for (int i = 0; i < num_codes_; ++i) {
      const Tensor& codes = ctx->input(i);
      tensorflow::TensorShape shape = codes.shape();
      OP_REQUIRES_OK(ctx, shape.AddDimWithStatus(dim_));
      Tensor* values = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shape, &values));
      parts.push_back({codes.flat<int64_t>().data(), codes.NumElements(), values->flat<float>().data()});
    }
    TfParallelFor pf(ctx);
    OP_REQUIRES_OK(ctx, ToTensorFlow(ExpandRows(parts, dim_, message.flat<int32_t>().data(),
                                                slots.flat<int64_t>().data(), slots.NumElements(), from, pf),
                                     "TableExpand"));
  }

 private:
  int64_t dim_ = 0;
  int64_t probe_ = 0;
  int num_codes_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableExpand").Device(tensorflow::DEVICE_CPU), TableExpandOp);

}  // namespace tf_booster
