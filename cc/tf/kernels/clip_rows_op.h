// What the kernels of TfBoosterClipRows and its gradient for CPU and GPU have in common: inputs and outputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_CLIP_ROWS_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_CLIP_ROWS_OP_H_

#include <vector>

#include "cc/core/clipping/clip_rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// gradient: the first inputs are the gradients of the clipped rows.
template <bool gradient>
class ClipRowsOpBase : public tensorflow::OpKernel {
 public:
  explicit ClipRowsOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_norms", &max_norms_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const int n = static_cast<int>(max_norms_.size());
    std::vector<ClipRows> all(n);
    for (int i = 0; i < n; ++i) {
      const tensorflow::Tensor& rows = ctx->input(gradient ? n + i : i);
      OP_REQUIRES(ctx, rows.dims() >= 1,
                  tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': rows[", i,
                                                      "] is a scalar; wanted rows"));
      all[i].rows = rows.flat<float>().data();
      all[i].dim = rows.dim_size(rows.dims() - 1);
      all[i].count = all[i].dim == 0 ? 0 : rows.NumElements() / all[i].dim;
      all[i].max_norm = max_norms_[i];
      if (gradient) {
        const tensorflow::Tensor& grads = ctx->input(i);
        OP_REQUIRES(ctx, grads.shape() == rows.shape(),
                    tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': gradients[", i, "] has shape ",
                                                        grads.shape().DebugString(), ", its rows ",
                                                        rows.shape().DebugString(), "; wanted one shape"));
        all[i].grads = grads.flat<float>().data();
      }
      tensorflow::Tensor* out = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, rows.shape(), &out));
      all[i].out = out->flat<float>().data();
    }
    OP_REQUIRES_OK(ctx, Run(ctx, all));
  }

 private:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const std::vector<ClipRows>& all) const = 0;

  std::vector<float> max_norms_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_CLIP_ROWS_OP_H_
