// A layer whose weights are integers while it is computed.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status QuantizedMatMulShapes(InferenceContext* c) {
  int num_biases;
  bool transpose_b;
  TF_RETURN_IF_ERROR(c->GetAttr("num_biases", &num_biases));
  TF_RETURN_IF_ERROR(c->GetAttr("transpose_b", &transpose_b));
  if (num_biases > 1) return errors::InvalidArgument("bias must have one entry or none");
  ShapeHandle a, b;
  DimensionHandle inner;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &a));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &b));
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(a, 1), c->Dim(b, transpose_b ? 1 : 0), &inner));
  DimensionHandle columns = c->Dim(b, transpose_b ? 0 : 1);
  if (num_biases > 0) {
    ShapeHandle bias;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &bias));
    TF_RETURN_IF_ERROR(c->Merge(columns, c->Dim(bias, 0), &columns));
  }
  c->set_output(0, c->Matrix(c->Dim(a, 0), columns));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterQuantizedMatMul")
    .Input("a: float")
    .Input("b: float")
    .Input("bias: num_biases * float")
    .Output("product: float")
    .Attr("num_biases: int >= 0")
    .Attr("transpose_b: bool = false")
    .Attr("relu: bool = false")
    .Attr("precision: {'int8', 'int16'}")
    .Attr("keep_weights: bool = false")
    .SetShapeFn(QuantizedMatMulShapes)
    .Doc(R"doc(
MatMul of a and b, BiasAdd where there is a bias and Relu with `relu`, in integers.

Each column of b is rounded to integers by a scale of its own, each row of a by a scale and a zero point of its own: a row of
the product depends on no other row of a. Rows and columns with elements that are not finite, or that range less than 2^-100,
are multiplied in float32.

a: [rows, k], rounded to 8 bits, or 12 with int16.
b: [k, columns], or the transpose with transpose_b; rounded to 8 bits with a sign, or 12.
bias: [columns], or an empty list.
keep_weights: to keep what b was rounded to for the next run, and use it while b is the same buffer. For a b that nothing
  writes to while another holds it: the value of a resource Variable, or a constant; not a reference Variable, which is
  written in place.
)doc");

}  // namespace tensorflow
