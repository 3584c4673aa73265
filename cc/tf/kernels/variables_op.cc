#include "cc/tf/kernels/variables_op.h"

#include <utility>

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/strcat.h"

namespace tf_booster {

using tensorflow::Tensor;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

VariablesOp::VariablesOp(tensorflow::OpKernelConstruction* ctx, int slots, std::vector<const char*> scalars,
                         const char* flag)
    : OpKernel(ctx), slots_(slots), scalars_(std::move(scalars)) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_vars_));
  if (flag != nullptr) OP_REQUIRES_OK(ctx, ctx->GetAttr(flag, &flag_));
}

std::string VariablesOp::Where() const { return tensorflow::strings::StrCat(type_string(), " '", name(), "': "); }

TfStatus VariablesOp::CheckScalars(tensorflow::OpKernelContext* ctx) const {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const Tensor& scalar = ctx->input(first_scalar() + static_cast<int>(i));
    if (!tensorflow::TensorShapeUtils::IsScalar(scalar.shape())) {
      return errors::InvalidArgument(Where(), scalars_[i], " has shape ", scalar.shape().DebugString(),
                                     "; wanted a scalar");
    }
  }
  return tensorflow::OkStatus();
}

TfStatus VariablesOp::CheckSlots(const LockedVariables& vars) const {
  for (int i = 0; i < num_vars_; ++i) {
    for (int k = 1; k <= slots_; ++k) {
      const auto& slot = vars.shape(k * num_vars_ + i);
      if (slot == vars.shape(i)) continue;
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " has shape ",
                                     vars.shape(i).DebugString(), ", but its slot ", requested_input(k * num_vars_ + i),
                                     " has ", slot.DebugString());
    }
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
