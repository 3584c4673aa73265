// What the kernels that update many Variables have in common: inputs var, slots and hyperparameters, in this order.
#ifndef TF_BOOSTER_CC_TF_KERNELS_VARIABLES_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_VARIABLES_OP_H_

#include <string>
#include <vector>

#include "cc/tf/kernels/variable_access.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class VariablesOp : public tensorflow::OpKernel {
 public:
  // slots: how many slots a Variable has; scalars: names of the hyperparameters; flag: the bool attribute, or null.
  VariablesOp(tensorflow::OpKernelConstruction* ctx, int slots, std::vector<const char*> scalars, const char* flag);

 protected:
  // The start of an error: "TfBoosterMultiApplyAdam 'name': ".
  std::string Where() const;

  tensorflow::Status CheckScalars(tensorflow::OpKernelContext* ctx) const;
  // Each slot has its Variable's shape.
  tensorflow::Status CheckSlots(const LockedVariables& vars) const;

  template <class T>
  std::vector<T> ReadScalars(tensorflow::OpKernelContext* ctx) const {
    std::vector<T> values;
    for (int i = first_scalar(); i < first_tensor(); ++i) values.push_back(ctx->input(i).template scalar<T>()());
    return values;
  }

  int first_scalar() const { return (1 + slots_) * num_vars_; }
  int first_tensor() const { return first_scalar() + static_cast<int>(scalars_.size()); }

  const int slots_;
  const std::vector<const char*> scalars_;
  int num_vars_ = 0;
  bool flag_ = false;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_VARIABLES_OP_H_
