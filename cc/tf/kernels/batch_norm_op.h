// What TfBoosterBatchNorm and TfBoosterBatchNormGrad have in common on CPU and GPU: inputs and outputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_BATCH_NORM_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_BATCH_NORM_OP_H_

#include "cc/core/normalization/batch_norm.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class BatchNormOpBase : public tensorflow::OpKernel {
 public:
  // backward: whether this is the gradient, which reads other vectors.
  BatchNormOpBase(tensorflow::OpKernelConstruction* ctx, bool backward) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("epsilon", &epsilon_));
    OP_REQUIRES_OK(ctx, CheckAtMostOne(ctx, "num_gamma", &num_gamma_));
    if (!backward) OP_REQUIRES_OK(ctx, CheckAtMostOne(ctx, "num_beta", &num_beta_));
  }

 protected:
  float epsilon() const { return epsilon_; }
  int num_gamma() const { return num_gamma_; }
  int num_beta() const { return num_beta_; }

  // The input `index` is x; those from `first` on must be vectors of its units.
  tensorflow::Status ReadRows(tensorflow::OpKernelContext* ctx, int index, int first, int64_t* rows,
                              int64_t* units) const {
    const tensorflow::Tensor& x = ctx->input(index);
    if (x.dims() < 1) {
      return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': x has shape ",
                                                 x.shape().DebugString(), ", wanted [..., units]");
    }
    *units = x.dim_size(x.dims() - 1);
    *rows = 1;
    for (int i = 0; i < x.dims() - 1; ++i) *rows *= x.dim_size(i);
    for (int i = first; i < ctx->num_inputs(); ++i) {
      const tensorflow::TensorShape& shape = ctx->input(i).shape();
      if (shape.dims() != 1 || shape.dim_size(0) != *units) {
        return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': input ", i, " has shape ",
                                                   shape.DebugString(), ", wanted [", *units, "], the units of x");
      }
    }
    return tensorflow::OkStatus();
  }

  static const float* Data(tensorflow::OpKernelContext* ctx, int index) {
    return ctx->input(index).flat<float>().data();
  }

  static tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx, int index, const tensorflow::TensorShape& shape,
                                     float** to) {
    tensorflow::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(index, shape, &tensor));
    *to = tensor->flat<float>().data();
    return tensorflow::OkStatus();
  }

  static tensorflow::Status AllocateSums(tensorflow::OpKernelContext* ctx, int64_t rows, int64_t units,
                                         tensorflow::Tensor* scratch) {
    return ctx->allocate_temp(tensorflow::DT_FLOAT, tensorflow::TensorShape({BatchNormScratch(rows, units)}), scratch);
  }

 private:
  tensorflow::Status CheckAtMostOne(tensorflow::OpKernelConstruction* ctx, const char* attr, int* count) const {
    TF_RETURN_IF_ERROR(ctx->GetAttr(attr, count));
    if (*count <= 1) return tensorflow::OkStatus();
    return tensorflow::errors::InvalidArgument(ctx->def().op(), " '", ctx->def().name(), "': ", attr, " is ", *count,
                                               ", wanted 0 or 1");
  }

  float epsilon_ = 0;
  int num_gamma_ = 0, num_beta_ = 0;
};

// Kernels of a device say how they Run().
class BatchNormForwardBase : public BatchNormOpBase {
 public:
  explicit BatchNormForwardBase(tensorflow::OpKernelConstruction* ctx) : BatchNormOpBase(ctx, false) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    BatchNormInput in;
    OP_REQUIRES_OK(ctx, ReadRows(ctx, 0, 1, &in.rows, &in.units));
    in.x = Data(ctx, 0);
    if (num_gamma() == 1) in.gamma = Data(ctx, 1);
    if (num_beta() == 1) in.beta = Data(ctx, 1 + num_gamma());
    in.epsilon = epsilon();
    BatchNormOutput out;
    OP_REQUIRES_OK(ctx, Allocate(ctx, 0, ctx->input(0).shape(), &out.y));
    OP_REQUIRES_OK(ctx, Allocate(ctx, 1, {in.units}, &out.mean));
    OP_REQUIRES_OK(ctx, Allocate(ctx, 2, {in.units}, &out.variance));
    tensorflow::Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateSums(ctx, in.rows, in.units, &scratch));
    OP_REQUIRES_OK(ctx, Run(ctx, in, out, scratch.flat<float>().data()));
  }

 private:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const BatchNormInput& in, const BatchNormOutput& out,
                                 float* scratch) const = 0;
};

class BatchNormBackwardBase : public BatchNormOpBase {
 public:
  explicit BatchNormBackwardBase(tensorflow::OpKernelConstruction* ctx) : BatchNormOpBase(ctx, true) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    BatchNormGradInput in;
    OP_REQUIRES_OK(ctx, ReadRows(ctx, 1, 2, &in.rows, &in.units));
    const tensorflow::TensorShape &dy = ctx->input(0).shape(), &x = ctx->input(1).shape();
    OP_REQUIRES(ctx, dy == x,
                tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': dy has shape ", dy.DebugString(),
                                                    ", wanted that of x, ", x.DebugString()));
    in.dy = Data(ctx, 0);
    in.x = Data(ctx, 1);
    in.mean = Data(ctx, 2);
    in.variance = Data(ctx, 3);
    if (num_gamma() == 1) in.gamma = Data(ctx, 4);
    in.epsilon = epsilon();
    BatchNormGradOutput out;
    OP_REQUIRES_OK(ctx, Allocate(ctx, 0, x, &out.dx));
    OP_REQUIRES_OK(ctx, Allocate(ctx, 1, {in.units}, &out.dgamma));
    OP_REQUIRES_OK(ctx, Allocate(ctx, 2, {in.units}, &out.dbeta));
    tensorflow::Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateSums(ctx, in.rows, in.units, &scratch));
    OP_REQUIRES_OK(ctx, Run(ctx, in, out, scratch.flat<float>().data()));
  }

 private:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const BatchNormGradInput& in,
                                 const BatchNormGradOutput& out, float* scratch) const = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_BATCH_NORM_OP_H_
