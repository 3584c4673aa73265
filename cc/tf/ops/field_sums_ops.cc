// Sums over the vectors of an example and over their squares: what a factorization machine is made of, and its
// gradient.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status FieldSumsShape(InferenceContext* c) {
  int64_t columns;
  int num_others, num_joined;
  std::vector<int64_t> apart;
  TF_RETURN_IF_ERROR(c->GetAttr("columns", &columns));
  TF_RETURN_IF_ERROR(c->GetAttr("num_others", &num_others));
  TF_RETURN_IF_ERROR(c->GetAttr("num_joined", &num_joined));
  TF_RETURN_IF_ERROR(c->GetAttr("apart_columns", &apart));
  ShapeHandle x;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &x));
  DimensionHandle rows = c->Dim(x, 0), wide;
  TF_RETURN_IF_ERROR(c->Multiply(c->Dim(x, 1), columns, &wide));
  for (int i = 0; i < num_others; ++i) {
    ShapeHandle other;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(1 + i), 2, &other));
    TF_RETURN_IF_ERROR(c->Merge(rows, c->Dim(other, 0), &rows));
    TF_RETURN_IF_ERROR(c->Add(wide, c->Dim(other, 1), &wide));
  }
  for (int i = 0; i < 2; ++i) c->set_output(i, c->Matrix(rows, columns));
  for (int i = 0; i < num_joined; ++i) c->set_output(2 + i, c->Matrix(rows, wide));
  for (size_t i = 0; i < apart.size() && 2 + num_joined + static_cast<int>(i) < c->num_outputs(); ++i) {
    c->set_output(2 + num_joined + static_cast<int>(i), c->MakeShape({rows, c->Dim(x, 1), c->MakeDim(apart[i])}));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterFieldSums")
    .Input("x: float")
    .Input("others: num_others * float")
    .Output("sums: float")
    .Output("square_sums: float")
    .Output("joined: num_joined * float")
    .Output("apart: num_apart * float")
    .Attr("first: int >= 0")
    .Attr("columns: int >= 1")
    .Attr("num_others: int >= 0")
    .Attr("num_joined: int >= 0")
    .Attr("num_apart: int >= 0")
    .Attr("place: int >= 0 = 0")
    .Attr("apart_first: list(int) = []")
    .Attr("apart_columns: list(int) = []")
    .SetShapeFn(FieldSumsShape)
    .Doc(R"doc(
Of the vectors v = x[:, :, first : first + columns]: Sum(v, 1), Sum(Square(v), 1), and copies that are made on the way. The same bits as TensorFlow's ops.

x: [rows, fields, all columns].
others: [rows, any columns] each: what is joined beside the vectors; none without `joined`.
sums, square_sums: [rows, columns].
joined: ConcatV2([others before `place`, Reshape(v, [rows, fields * columns]), the rest of others], 1), if num_joined is 1.
apart: [rows, fields, apart_columns[i]]: x[:, :, apart_first[i] : apart_first[i] + apart_columns[i]].
)doc");

REGISTER_OP("TfBoosterFieldSumsGrad")
    .Input("x: float")
    .Input("terms: N * float")
    .Output("gradient: float")
    .Attr("N: int >= 1")
    .Attr("ranges: list(int)")
    .Attr("counts: list(int)")
    .Attr("kinds: list({'whole', 'sum', 'square_sum', 'product_sum'})")
    .Attr("first: list(int)")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle x;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &x));
      c->set_output(0, x);
      return OkStatus();
    })
    .Doc(R"doc(
The gradient of x of FieldSums, as the sum of terms that tf.gradients makes of it; one column after another belongs to the ranges.

x: [rows, fields, all columns].
terms: [rows or 1, ...] each. Those of a range are added up in their order; 1 row stands for all rows.
gradient: as x.
ranges: the columns of each range; they make up those of x.
counts: how many terms each range has, at least 1 each, N in all.
kinds: of each term, of which a range of C columns reads, in each row from element first[i] on:
  whole: fields * C elements, the gradient of the vectors one after another.
  sum: C, the gradient of the vectors' sum.
  square_sum: C, that of the sum of Square(v): times (v * 2).
  product_sum: C, that of the sum of v * v for one of the factors: times v.
)doc");

}  // namespace tensorflow
