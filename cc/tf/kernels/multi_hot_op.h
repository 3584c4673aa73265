// What the kernels of TfBoosterMultiHot for CPU and GPU have in common: inputs and outputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_MULTI_HOT_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_MULTI_HOT_OP_H_

#include <cstdint>
#include <vector>

#include "cc/core/columns/multi_hot.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class MultiHotOpBase : public tensorflow::OpKernel {
 public:
  explicit MultiHotOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("depths", &depths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("apart", &apart_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<MultiHot> all;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const tensorflow::Tensor& ids = ctx->input(i);
      OP_REQUIRES(ctx, ids.dims() == 2,
                  tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': ids[", i, "] has shape ",
                                                      ids.shape().DebugString(), ", wanted [rows, ids of a row]"));
      MultiHot m;
      m.ids = ids.flat<int64_t>().data();
      m.rows = ids.dim_size(0);
      m.of_row = ids.dim_size(1);
      m.depth = depths_[i];
      m.apart = apart_[i];
      tensorflow::Tensor* out = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {m.rows, m.width()}, &out));
      m.out = out->flat<float>().data();
      all.push_back(m);
    }
    OP_REQUIRES_OK(ctx, Write(ctx, all));
  }

 private:
  virtual tensorflow::Status Write(tensorflow::OpKernelContext* ctx, const std::vector<MultiHot>& all) const = 0;

  std::vector<int64_t> depths_;
  std::vector<bool> apart_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_MULTI_HOT_OP_H_
