// The fused sparse optimizers on hash tables. Each sums the gradients of equal keys, counts the sightings, admits and
// inserts rows, and updates embedding and slots in one pass. Formulas are in cc/core/optimizer.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

// keys, key_fields, counts, handles: outputs of the N probes whose codes occur in `indices`, in the order of their
// groups. indices, grads: M gradients, each [n] codes and [n, dim]. Indices that are 0 are skipped. Hyperparameters are
// scalars. fields: those whose clocks go on a step, with keys in the batch or without; empty: all of the table.
// check_numerics: NaN or infinity in grads is InvalidArgument, and nothing is applied.
#define TABLE_APPLY_OP(name)                \
  REGISTER_OP("TfBoosterTableApply" name)   \
      .Input("table: resource")             \
      .Input("keys: N * int64")             \
      .Input("key_fields: N * int32")       \
      .Input("counts: N * int64")           \
      .Input("handles: N * int64")          \
      .Input("indices: M * int64")          \
      .Input("grads: M * float")            \
      .Attr("N: int >= 1")                  \
      .Attr("M: int >= 1")                  \
      .Attr("fields: list(int) = []")       \
      .Attr("check_numerics: bool = false") \
      .SetIsStateful()                      \
      .SetShapeFn(shape_inference::NoOutputs)

TABLE_APPLY_OP("GradientDescent").Input("lr: float");

TABLE_APPLY_OP("Momentum").Input("lr: float").Input("momentum: float").Attr("use_nesterov: bool = false");

// Keras's formulation: accum = accum * momentum - lr * grad; var += accum.
TABLE_APPLY_OP("KerasMomentum").Input("lr: float").Input("momentum: float").Attr("use_nesterov: bool = false");

TABLE_APPLY_OP("Adagrad").Input("lr: float").Attr("update_slots: bool = true");

TABLE_APPLY_OP("AdagradV2").Input("lr: float").Input("epsilon: float").Attr("update_slots: bool = true");

TABLE_APPLY_OP("Adam")
    .Input("beta1_power: float")
    .Input("beta2_power: float")
    .Input("lr: float")
    .Input("beta1: float")
    .Input("beta2: float")
    .Input("epsilon: float")
    .Attr("use_nesterov: bool = false");

TABLE_APPLY_OP("Ftrl")
    .Input("lr: float")
    .Input("l1: float")
    .Input("l2: float")
    .Input("l2_shrinkage: float")
    .Input("lr_power: float")
    .Attr("multiply_linear_by_lr: bool = false");

// epsilon_outside_sqrt: Keras without momentum divides by sqrt(ms) + epsilon in place of sqrt(ms + epsilon).
TABLE_APPLY_OP("RMSProp")
    .Input("lr: float")
    .Input("rho: float")
    .Input("momentum: float")
    .Input("epsilon: float")
    .Attr("epsilon_outside_sqrt: bool = false");

TABLE_APPLY_OP("CenteredRMSProp")
    .Input("lr: float")
    .Input("rho: float")
    .Input("momentum: float")
    .Input("epsilon: float")
    .Attr("epsilon_outside_sqrt: bool = false");

}  // namespace tensorflow
