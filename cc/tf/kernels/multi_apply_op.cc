#include "cc/tf/kernels/multi_apply_op.h"

#include <utility>

#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

MultiApplyOpBase::MultiApplyOpBase(tensorflow::OpKernelConstruction* ctx, int slots, dense::ScalarNames scalars,
                                   const char* flag)
    : VariablesOp(ctx, slots, std::move(scalars), flag) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("M", &num_grads_));
  OP_REQUIRES(ctx, num_grads_ == num_vars_ || num_grads_ == 1,
              errors::InvalidArgument(Where(), "grad is ", num_grads_, " tensors for ", num_vars_,
                                      " variables; wanted one for each, or one that holds all"));
}

bool MultiApplyOpBase::is_packed(OpKernelContext* ctx) const {
  return num_grads_ == 1 && (num_vars_ > 1 || ctx->input(first_tensor()).dims() == 1);
}

TfStatus MultiApplyOpBase::CheckShapes(OpKernelContext* ctx, const LockedVariables& vars, Blocks* blocks) const {
  TF_RETURN_IF_ERROR(CheckSlots(vars));
  const bool packed = is_packed(ctx);
  const TensorShape& first_grad = ctx->input(first_tensor()).shape();
  int64_t block = 0, element = 0;
  for (int i = 0; i < num_vars_; ++i) {
    const TensorShape& shape = vars.shape(i);
    if (!packed && ctx->input(first_tensor() + i).shape() != shape) {
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " has shape ", shape.DebugString(),
                                     ", but its gradient has ", ctx->input(first_tensor() + i).shape().DebugString());
    }
    blocks->first_block.push_back(block);
    blocks->first_element.push_back(element);
    block += (shape.num_elements() + dense::kBlock - 1) / dense::kBlock;
    element += shape.num_elements();
  }
  blocks->first_block.push_back(block);
  blocks->first_element.push_back(element);
  if (packed && (first_grad.dims() != 1 || first_grad.num_elements() != element)) {
    return errors::InvalidArgument(Where(), "the packed gradient has shape ", first_grad.DebugString(), ", wanted [",
                                   element, "], the elements of all variables one after another");
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
