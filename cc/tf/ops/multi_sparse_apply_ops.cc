// Sparse optimizer steps on many Variables in one op: what N ops ResourceSparseApply<X>, with the sums of duplicates in
// front of them, or N of Adam's chains of reads, assigns and scatters do.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

// var and each slot: N resource Variables of dtype T; var[i] and its slots have one shape [rows, …]. Hyperparameters
// are scalars. indices[i]: [n_i] rows of var[i], in any order; grad[i]: [n_i, …] their gradients. sum_duplicates:
// gradients of one row are summed, in the order of their occurrence, and the row steps once. Otherwise it steps once
// for each, in that order. distinct[i], if the list is not empty: the indices of var[i] are known to differ from each
// other, so that none need be sought. An index out of range is InvalidArgument, and nothing is applied.
//
// Of a table that several Variables hold, as tf.nn.embedding_lookup divides it, each has the table's whole indices and
// gradient, and takes what is its own: var[i] is part part[i] of parts[i], of part_rows[i] rows together, divided as
// partition_strategy "mod" (mod[i]) or "div" says. All four lists are empty, or have an entry for each Variable (0, 1,
// its rows, false for a table of its own). Parts that follow each other share the work of finding and adding rows.
#define MULTI_SPARSE_APPLY_OP(name)             \
  REGISTER_OP("TfBoosterMultiSparseApply" name) \
      .Attr("T: {float, double}")               \
      .Attr("Tindices: {int32, int64}")         \
      .Attr("N: int >= 1")                      \
      .Attr("sum_duplicates: bool = true")      \
      .Attr("distinct: list(bool) = []")        \
      .Attr("part: list(int) = []")             \
      .Attr("parts: list(int) = []")            \
      .Attr("part_rows: list(int) = []")        \
      .Attr("mod: list(bool) = []")             \
      .SetIsStateful()                          \
      .SetShapeFn(shape_inference::NoOutputs)   \
      .Input("var: N * resource")

#define GRADIENT Input("indices: N * Tindices").Input("grad: N * T")

// var[row] += -grad * lr, as gradient descent's ResourceScatterAdd.
MULTI_SPARSE_APPLY_OP("GradientDescent").Input("lr: T").GRADIENT;

MULTI_SPARSE_APPLY_OP("Momentum")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("momentum: T")
    .GRADIENT.Attr("use_nesterov: bool = false");

MULTI_SPARSE_APPLY_OP("KerasMomentum")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("momentum: T")
    .GRADIENT.Attr("use_nesterov: bool = false");

MULTI_SPARSE_APPLY_OP("Adagrad").Input("accum: N * resource").Input("lr: T").GRADIENT.Attr("update_slots: bool = true");

MULTI_SPARSE_APPLY_OP("AdagradV2")
    .Input("accum: N * resource")
    .Input("lr: T")
    .Input("epsilon: T")
    .GRADIENT.Attr("update_slots: bool = true");

MULTI_SPARSE_APPLY_OP("Adadelta")
    .Input("accum: N * resource")
    .Input("accum_update: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("epsilon: T")
    .GRADIENT;

MULTI_SPARSE_APPLY_OP("Ftrl")
    .Input("accum: N * resource")
    .Input("linear: N * resource")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("lr_power: T")
    .GRADIENT.Attr("multiply_linear_by_lr: bool = false");

MULTI_SPARSE_APPLY_OP("FtrlV2")
    .Input("accum: N * resource")
    .Input("linear: N * resource")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("l2_shrinkage: T")
    .Input("lr_power: T")
    .GRADIENT.Attr("multiply_linear_by_lr: bool = false");

MULTI_SPARSE_APPLY_OP("RMSProp")
    .Input("ms: N * resource")
    .Input("mom: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .GRADIENT;

MULTI_SPARSE_APPLY_OP("CenteredRMSProp")
    .Input("mg: N * resource")
    .Input("ms: N * resource")
    .Input("mom: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .GRADIENT;

// TensorFlow's Adam on IndexedSlices: m and v of every row decay, rows with a gradient add it, and every row of var
// moves by alpha * m / (sqrt(v) + epsilon); alpha is the learning rate with the bias correction in it. lazy: only rows
// with a gradient decay and move.
MULTI_SPARSE_APPLY_OP("Adam")
    .Input("m: N * resource")
    .Input("v: N * resource")
    .Input("alpha: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .GRADIENT.Attr("lazy: bool = false");

// Keras's RMSprop without momentum on IndexedSlices: ms of every row decays; rows with a gradient move, by
// lr * grad / (sqrt(ms) + epsilon).
MULTI_SPARSE_APPLY_OP("KerasRMSProp")
    .Input("ms: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("epsilon: T")
    .GRADIENT;

// Centered: mg too, and sqrt(ms - mg^2).
MULTI_SPARSE_APPLY_OP("KerasCenteredRMSProp")
    .Input("mg: N * resource")
    .Input("ms: N * resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("epsilon: T")
    .GRADIENT;

#undef GRADIENT
#undef MULTI_SPARSE_APPLY_OP

}  // namespace tensorflow
