// TfBoosterPadRows and TfBoosterTakeFirstRows: a batch gets the size of a bucket, and loses the rows again that it got.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cc/core/padding/row_bucket.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

// Reads the attribute `times` of an op with so many values.
tensorflow::Status ReadTimes(tensorflow::OpKernelConstruction* ctx, int values, std::vector<int64_t>* times) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("times", times));
  if (static_cast<int>(times->size()) != values || *std::min_element(times->begin(), times->end()) < 1) {
    return InvalidArgument("Op '", ctx->def().name(), "': times has ", times->size(),
                           " numbers; wanted one of at least 1 for each of ", values, " values");
  }
  return tensorflow::OkStatus();
}

class PadRowsOp final : public tensorflow::OpKernel {
 public:
  explicit PadRowsOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadTimes(ctx, num_inputs(), &times_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("fewest", &fewest_));
    for (const tensorflow::DataType type : input_types()) {
      OP_REQUIRES(ctx, tensorflow::DataTypeCanUseMemcpy(type),
                  InvalidArgument("PadRows '", name(), "': values are ", tensorflow::DataTypeString(type),
                                  "; wanted numbers or bool"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const int count = ctx->num_inputs();
    for (int i = 0; i < count; ++i) {
      OP_REQUIRES(ctx, ctx->input(i).dims() > 0,
                  InvalidArgument("PadRows '", name(), "': value ", i, " is a scalar; it must have rows"));
    }
    const int64_t rows = ctx->input(0).dim_size(0) / times_[0];
    bool pads = rows >= fewest_;
    for (int i = 0; i < count; ++i) pads = pads && ctx->input(i).dim_size(0) == rows * times_[i];
    const int64_t bucket = pads ? RowBucket(rows) : rows;
    Tensor *sizes = nullptr, *decision = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(count, {2}, &sizes));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(count + 1, {}, &decision));
    sizes->flat<int64_t>()(0) = rows;
    sizes->flat<int64_t>()(1) = bucket;
    decision->scalar<bool>()() = pads;
    for (int i = 0; i < count; ++i) {
      if (bucket == rows) {
        ctx->set_output(i, ctx->input(i));
      } else {
        Pad(ctx, i, bucket * times_[i]);
      }
      if (!ctx->status().ok()) return;
    }
  }

 private:
  static void Pad(OpKernelContext* ctx, int i, int64_t wanted) {
    const Tensor& value = ctx->input(i);
    const int64_t given = value.dim_size(0);
    tensorflow::TensorShape shape = value.shape();
    shape.set_dim(0, wanted);
    Tensor* padded = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shape, &padded));
    const int64_t bytes = value.NumElements() / given * tensorflow::DataTypeSize(value.dtype());
    if (bytes == 0) return;
    const char* from = value.tensor_data().data();
    char* to = const_cast<char*>(padded->tensor_data().data());
    constexpr int64_t kBytesANs = 8;
    TfParallelFor pf(ctx);
    pf.Run(wanted, bytes / kBytesANs + 1, [&](int64_t begin, int64_t end) {
      const int64_t copied = std::min(end, given);
      if (begin < copied) std::memcpy(to + begin * bytes, from + begin * bytes, (copied - begin) * bytes);
      for (int64_t j = std::max(begin, given); j < end; ++j) {
        std::memcpy(to + j * bytes, from + (given - 1) * bytes, bytes);
      }
    });
  }

  std::vector<int64_t> times_;
  int64_t fewest_ = 1;
};

class TakeFirstRowsOp final : public tensorflow::OpKernel {
 public:
  explicit TakeFirstRowsOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadTimes(ctx, num_outputs(), &times_));
  }

  void Compute(OpKernelContext* ctx) override {
    const int count = ctx->num_outputs();
    const Tensor& sizes = ctx->input(count);
    OP_REQUIRES(ctx, sizes.NumElements() == 2,
                InvalidArgument("TakeFirstRows '", name(), "': rows is ", sizes.shape().DebugString(),
                                "; wanted [rows, bucket], as PadRows gives them"));
    const int64_t rows = sizes.flat<int64_t>()(0), bucket = sizes.flat<int64_t>()(1);
    for (int i = 0; i < count; ++i) {
      const Tensor& value = ctx->input(i);
      OP_REQUIRES(
          ctx, 0 <= rows && rows <= bucket && value.dims() > 0 && value.dim_size(0) == bucket * times_[i],
          InvalidArgument("TakeFirstRows '", name(), "': value ", i, " is ", value.shape().DebugString(), " where ",
                          rows, " rows were padded to ", bucket, "; wanted ", bucket * times_[i], " rows"));
      ctx->set_output(i, rows == bucket ? value : value.Slice(0, rows * times_[i]));
    }
  }

 private:
  std::vector<int64_t> times_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterPadRows").Device(tensorflow::DEVICE_CPU), PadRowsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTakeFirstRows").Device(tensorflow::DEVICE_CPU), TakeFirstRowsOp);

}  // namespace
}  // namespace tf_booster
