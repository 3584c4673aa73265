#include "cc/tf/kernels/multi_apply_op.h"

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/strcat.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

MultiApplyOpBase::MultiApplyOpBase(tensorflow::OpKernelConstruction* ctx, int slots, int scalars, const char* flag)
    : OpKernel(ctx), slots_(slots), scalars_(scalars) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_vars_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("M", &num_grads_));
  if (flag != nullptr) OP_REQUIRES_OK(ctx, ctx->GetAttr(flag, &flag_));
  OP_REQUIRES(ctx, num_grads_ == num_vars_ || num_grads_ == 1,
              errors::InvalidArgument(Where(), "grad is ", num_grads_, " tensors for ", num_vars_,
                                      " variables; wanted one for each, or one that holds all"));
}

std::string MultiApplyOpBase::Where() const { return tensorflow::strings::StrCat(type_string(), " '", name(), "': "); }

bool MultiApplyOpBase::is_packed(OpKernelContext* ctx) const {
  return num_grads_ == 1 && (num_vars_ > 1 || ctx->input(first_grad()).dims() == 1);
}

TfStatus MultiApplyOpBase::CheckScalars(OpKernelContext* ctx, const dense::ScalarNames& names) const {
  for (int i = 0; i < scalars_; ++i) {
    const Tensor& scalar = ctx->input(first_scalar() + i);
    if (!tensorflow::TensorShapeUtils::IsScalar(scalar.shape())) {
      return errors::InvalidArgument(Where(), names[i], " has shape ", scalar.shape().DebugString(),
                                     "; wanted a scalar");
    }
  }
  return tensorflow::OkStatus();
}

TfStatus MultiApplyOpBase::CheckShapes(OpKernelContext* ctx, const LockedVariables& vars, Blocks* blocks) const {
  const bool packed = is_packed(ctx);
  int64_t block = 0, element = 0;
  for (int i = 0; i < num_vars_; ++i) {
    const TensorShape& shape = vars.shape(i);
    for (int k = 1; k <= slots_; ++k) {
      const TensorShape& slot = vars.shape(k * num_vars_ + i);
      if (slot == shape) continue;
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " has shape ", shape.DebugString(),
                                     ", but its slot ", requested_input(k * num_vars_ + i), " has ",
                                     slot.DebugString());
    }
    if (!packed && ctx->input(first_grad() + i).shape() != shape) {
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " has shape ", shape.DebugString(),
                                     ", but its gradient has ", ctx->input(first_grad() + i).shape().DebugString());
    }
    blocks->first_block.push_back(block);
    blocks->first_element.push_back(element);
    block += (shape.num_elements() + dense::kBlock - 1) / dense::kBlock;
    element += shape.num_elements();
  }
  blocks->first_block.push_back(block);
  blocks->first_element.push_back(element);
  if (packed && (ctx->input(first_grad()).dims() != 1 || ctx->input(first_grad()).NumElements() != element)) {
    return errors::InvalidArgument(Where(), "the packed gradient has shape ",
                                   ctx->input(first_grad()).shape().DebugString(), ", wanted [", element,
                                   "], the elements of all variables one after another");
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
