// Batch normalization by the statistics of the batch, and its gradient.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// The last dimension of the input `index`, merged with the vectors from input `first` on.
Status UnitsOf(InferenceContext* c, int index, int first, DimensionHandle* units) {
  ShapeHandle x;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(index), 1, &x));
  *units = c->Dim(x, -1);
  for (int i = first; i < c->num_inputs(); ++i) {
    ShapeHandle vector;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &vector));
    TF_RETURN_IF_ERROR(c->Merge(*units, c->Dim(vector, 0), units));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterBatchNorm")
    .Input("x: float")
    .Input("gamma: num_gamma * float")
    .Input("beta: num_beta * float")
    .Output("y: float")
    .Output("mean: float")
    .Output("variance: float")
    .Attr("num_gamma: int >= 0")
    .Attr("num_beta: int >= 0")
    .Attr("epsilon: float")
    .SetShapeFn([](InferenceContext* c) {
      DimensionHandle units;
      TF_RETURN_IF_ERROR(UnitsOf(c, 0, 1, &units));
      c->set_output(0, c->input(0));
      for (int i = 1; i < 3; ++i) c->set_output(i, c->Vector(units));
      return OkStatus();
    })
    .Doc(R"doc(
What tf.nn.batch_normalization gives with the moments of x over all dimensions but the last.

x: [..., units].
gamma, beta: [units], or none.
y: as x: x * inverse + (beta - mean * inverse), where inverse is gamma / sqrt(variance + epsilon).
mean, variance: [units]; NaN where x has no rows.
)doc");

REGISTER_OP("TfBoosterBatchNormGrad")
    .Input("dy: float")
    .Input("x: float")
    .Input("mean: float")
    .Input("variance: float")
    .Input("gamma: num_gamma * float")
    .Output("dx: float")
    .Output("dgamma: float")
    .Output("dbeta: float")
    .Attr("num_gamma: int >= 0")
    .Attr("epsilon: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle x;
      DimensionHandle units;
      TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &x));
      TF_RETURN_IF_ERROR(UnitsOf(c, 1, 2, &units));
      c->set_output(0, x);
      for (int i = 1; i < 3; ++i) c->set_output(i, c->Vector(units));
      return OkStatus();
    })
    .Doc(R"doc(
The gradients of TfBoosterBatchNorm, where mean and variance have none of their own.

dy, x: [..., units]. mean, variance: [units], as TfBoosterBatchNorm gave them.
gamma: [units], or none.
dx: as x. dgamma, dbeta: [units]. dgamma is that of ones where there is no gamma.
)doc");

}  // namespace tensorflow
