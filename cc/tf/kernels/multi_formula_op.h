// What the kernels of TfBoosterMultiApplyFormula on CPU and GPU have in common: the formula, and the checks of its
// inputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_MULTI_FORMULA_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_MULTI_FORMULA_OP_H_

#include "cc/core/optimizer/formula.h"
#include "cc/tf/kernels/variables_op.h"

namespace tf_booster {

class MultiFormulaOpBase : public VariablesOp {
 public:
  explicit MultiFormulaOpBase(tensorflow::OpKernelConstruction* ctx);

 protected:
  // Numbers are scalars, slots and tensors have their Variables' shapes.
  tensorflow::Status CheckShapes(tensorflow::OpKernelContext* ctx, const LockedVariables& vars) const;
  // Tensor k of Variable i.
  const tensorflow::Tensor& tensor(tensorflow::OpKernelContext* ctx, int k, int i) const {
    return ctx->input(first_tensor() + k * num_vars_ + i);
  }

  Formula formula_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_MULTI_FORMULA_OP_H_
