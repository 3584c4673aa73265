// Dot products of pairs of vectors within each example: the interaction of a DLRM, and its gradient.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// The first dimension of the inputs [from, from + n), which all of them share.
Status RowsOf(InferenceContext* c, int from, int n, DimensionHandle* rows) {
  for (int i = 0; i < n; ++i) {
    ShapeHandle part;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(from + i), 2, &part));
    if (c->RankKnown(part)) TF_RETURN_IF_ERROR(c->Merge(*rows, c->Dim(part, 0), rows));
  }
  return OkStatus();
}

Status PairDotsShape(InferenceContext* c) {
  int n;
  std::vector<int64_t> pairs;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  TF_RETURN_IF_ERROR(c->GetAttr("pairs", &pairs));
  DimensionHandle rows = c->UnknownDim();
  TF_RETURN_IF_ERROR(RowsOf(c, 0, n, &rows));
  c->set_output(0, c->Matrix(rows, static_cast<int64_t>(pairs.size())));
  return OkStatus();
}

// The dots and the other matrices beside each other.
Status JoinedPairDotsShape(InferenceContext* c) {
  int n, num_others;
  std::vector<int64_t> pairs;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  TF_RETURN_IF_ERROR(c->GetAttr("num_others", &num_others));
  TF_RETURN_IF_ERROR(c->GetAttr("pairs", &pairs));
  DimensionHandle rows = c->UnknownDim(), columns = c->MakeDim(static_cast<int64_t>(pairs.size()));
  TF_RETURN_IF_ERROR(RowsOf(c, 0, n, &rows));
  for (int i = 0; i < num_others; ++i) {
    ShapeHandle other;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(n + i), 2, &other));
    TF_RETURN_IF_ERROR(c->Merge(rows, c->Dim(other, 0), &rows));
    TF_RETURN_IF_ERROR(c->Add(columns, c->Dim(other, 1), &columns));
  }
  c->set_output(0, c->Matrix(rows, columns));
  return OkStatus();
}

Status PairDotsGradShape(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  ShapeHandle gradient;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &gradient));
  DimensionHandle rows = c->Dim(gradient, 0);
  TF_RETURN_IF_ERROR(RowsOf(c, 1, n, &rows));
  for (int i = 0; i < n; ++i) c->set_output(i, c->input(1 + i));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterPairDots")
    .Input("parts: N * float")
    .Output("dots: float")
    .Attr("N: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("pairs: list(int)")
    .SetShapeFn(PairDotsShape)
    .Doc(R"doc(
Dot products of pairs of vectors of an example: Gather(Reshape(MatMul(x, x, transpose_b=True), [rows, fields * fields]), pairs, axis=1).

parts: [rows, ...] each; the elements of a row are one or several vectors of `dim`. Part after part they are the fields 0, 1, … of x.
dots: [rows, the number of pairs].
pairs: i * fields + j is the dot of the fields i and j; no two are equal.
)doc");

REGISTER_OP("TfBoosterJoinedPairDots")
    .Input("parts: N * float")
    .Input("others: num_others * float")
    .Output("joined: float")
    .Attr("N: int >= 1")
    .Attr("num_others: int >= 0")
    .Attr("dim: int >= 1")
    .Attr("pairs: list(int)")
    .Attr("order: list(int)")
    .SetShapeFn(JoinedPairDotsShape)
    .Doc(R"doc(
ConcatColumns of the dots of PairDots and of other matrices, without a copy of the dots.

others: [rows, columns] each.
joined: [rows, the number of pairs and all columns of others].
order: what stands beside each other in joined: 0 are the dots, 1 + i is others[i]; each once.
)doc");

REGISTER_OP("TfBoosterPairDotsGrad")
    .Input("gradient: float")
    .Input("parts: N * float")
    .Output("gradients: N * float")
    .Attr("N: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("pairs: list(int)")
    .Attr("column: int >= -1 = -1")
    .SetShapeFn(PairDotsGradShape)
    .Doc(R"doc(
The gradients of the parts of PairDots, in their shapes.

gradient: of the dots, [rows, the number of pairs]; or with `column` a wider matrix, which has them from that column on.
)doc");

}  // namespace tensorflow
