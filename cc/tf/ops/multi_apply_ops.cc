// Dense optimizer steps on many Variables in one op. TfBoosterMultiApply<X> does what N ops ResourceApply<X> do, with
// the same bits as TensorFlow's CPU kernels.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

// var and each slot: N resource Variables of dtype T; var[i] and its slots have one shape. Hyperparameters are scalars.
// grad: either N tensors of the Variables' shapes, or one 1-D tensor that holds all of them, one after another in the
// order of `var`. use_locking is for ResourceApply's signature: Variables are always locked.
#define MULTI_APPLY_OP(name)                      \
  REGISTER_OP("TfBoosterMultiApply" name)         \
      .Attr("T: {float, double, half, bfloat16}") \
      .Attr("N: int >= 1")                        \
      .Attr("M: int >= 1")                        \
      .Attr("use_locking: bool = false")          \
      .SetIsStateful()                            \
      .SetShapeFn(shape_inference::NoOutputs)     \
      .Input("var: N * resource")

MULTI_APPLY_OP("GradientDescent").Input("lr: T").Input("grad: M * T");

MULTI_APPLY_OP("ProximalGradientDescent").Input("lr: T").Input("l1: T").Input("l2: T").Input("grad: M * T");

MULTI_APPLY_OP("Momentum")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("momentum: T")
    .Input("grad: M * T")
    .Attr("use_nesterov: bool = false");

MULTI_APPLY_OP("KerasMomentum")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("momentum: T")
    .Input("grad: M * T")
    .Attr("use_nesterov: bool = false");

MULTI_APPLY_OP("Adagrad")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("grad: M * T")
    .Attr("update_slots: bool = true");

MULTI_APPLY_OP("AdagradV2")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("epsilon: T")
    .Input("grad: M * T")
    .Attr("update_slots: bool = true");

MULTI_APPLY_OP("ProximalAdagrad")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("grad: M * T");

MULTI_APPLY_OP("Adadelta")
    .Input("accum: N * resource")
    .Input("accum_update: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("epsilon: T")
    .Input("grad: M * T");

MULTI_APPLY_OP("Adam")
    .Input("m: N * resource")
    .Input("v: N * resource")
    .Input("beta1_power: T")
    .Input("beta2_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("grad: M * T")
    .Attr("use_nesterov: bool = false");

MULTI_APPLY_OP("AdamWithAmsgrad")
    .Input("m: N * resource")
    .Input("v: N * resource")
    .Input("vhat: N * resource")
    .Input("beta1_power: T")
    .Input("beta2_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("grad: M * T");

MULTI_APPLY_OP("AdaMax")
    .Input("m: N * resource")
    .Input("v: N * resource")
    .Input("beta1_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("grad: M * T");

MULTI_APPLY_OP("Ftrl")
    .Input("accum: N * resource")
    .Input("linear: N * resource")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("lr_power: T")
    .Input("grad: M * T")
    .Attr("multiply_linear_by_lr: bool = false");

MULTI_APPLY_OP("FtrlV2")
    .Input("accum: N * resource")
    .Input("linear: N * resource")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("l2_shrinkage: T")
    .Input("lr_power: T")
    .Input("grad: M * T")
    .Attr("multiply_linear_by_lr: bool = false");

MULTI_APPLY_OP("RMSProp")
    .Input("ms: N * resource")
    .Input("mom: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .Input("grad: M * T");

MULTI_APPLY_OP("CenteredRMSProp")
    .Input("mg: N * resource")
    .Input("ms: N * resource")
    .Input("mom: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .Input("grad: M * T");

// No optimizer's: moving averages, as batch normalization and tf.train.ExponentialMovingAverage keep them, go the same
// way. grad: what they average, in var's shapes. rate: 1 - decay.
MULTI_APPLY_OP("MovingAverage").Input("rate: T").Input("grad: M * T").Doc(R"doc(
Many moving averages in one op: var -= (var - grad) * rate, each operation rounded as TensorFlow's Sub, Mul and
AssignSubVariableOp do.

var: resource Variables, locked together.
rate: 1 - decay, a scalar.
grad: the new values, a tensor of each Variable's shape, or one 1-D tensor that holds all of them.
)doc");

#undef MULTI_APPLY_OP

REGISTER_OP("TfBoosterMultiApplyFormula")
    .Input("var: V * resource")
    .Input("number: S * T")
    .Input("tensor: B * T")
    .Attr("T: {float, double, half, bfloat16}")
    .Attr("N: int >= 1")
    .Attr("V: int >= 1")
    .Attr("S: int >= 1")
    .Attr("B: int >= 0")
    .Attr("operations: list(string)")
    .Attr("operands: list(int)")
    .Attr("results: list(int)")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
One update of many Variables that a program has put together of elementwise ops, with the same bits as these ops give.

Values are counted: first the arrays, which are a Variable and its slots; then the tensors, the numbers, and what the
operations give, one after another.

var: resource Variables, locked together: N first arrays, then N second ones. Those of one place in all have one shape.
number: scalars that all Variables share.
tensor: N first tensors, then N second ones, such as gradients, of their Variables' shapes.
operations: op types: Add, AddV2, Sub, Mul, RealDiv, Maximum, Minimum, Neg, Abs, Sign, Square, Sqrt, Rsqrt.
operands: the values that each of operations takes, one or two.
results: of each array the value that it gets: what one of operations gives, or the array itself.
)doc");

}  // namespace tensorflow
