// The kernel of TfBoosterOwnVariable: gives a Variable memory of its own, for what updates it in place.
#ifndef TF_BOOSTER_CC_TF_KERNELS_OWN_VARIABLE_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_OWN_VARIABLE_OP_H_

#include "cc/tf/kernels/variable_access.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

template <LockedVariables::CopyBytes copy_bytes>
class OwnVariableOp final : public tensorflow::OpKernel {
 public:
  explicit OwnVariableOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    LockedVariables variable;
    OP_REQUIRES_OK(ctx, variable.Lock(ctx, 0, 1, dtype_));
    OP_REQUIRES_OK(ctx, variable.PrepareToUpdate(ctx, copy_bytes));
  }

 private:
  tensorflow::DataType dtype_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_OWN_VARIABLE_OP_H_
