// Gather and BatchMatMul as one op.
#include <string>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status GatherBatchMatMulShapes(InferenceContext* c) {
  std::string gathered;
  bool adj_x, adj_y;
  TF_RETURN_IF_ERROR(c->GetAttr("gathered", &gathered));
  TF_RETURN_IF_ERROR(c->GetAttr("adj_x", &adj_x));
  TF_RETURN_IF_ERROR(c->GetAttr("adj_y", &adj_y));
  ShapeHandle sides[2], batches[2], rows;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &rows));
  for (int i = 0; i < 2; ++i) {
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(i), 3, &sides[i]));
    if (!c->RankKnown(sides[i])) {
      c->set_output(0, c->UnknownShape());
      return OkStatus();
    }
    if (c->Rank(sides[i]) != c->Rank(sides[0])) {
      return errors::InvalidArgument("x has rank ", c->Rank(sides[0]), ", y rank ", c->Rank(sides[i]),
                                     "; wanted one rank");
    }
    TF_RETURN_IF_ERROR(c->Subshape(sides[i], i == (gathered == "y") ? 1 : 0, -2, &batches[i]));
    if (i == (gathered == "y")) TF_RETURN_IF_ERROR(c->Concatenate(rows, batches[i], &batches[i]));
  }
  DimensionHandle inner;
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(sides[0], adj_x ? -2 : -1), c->Dim(sides[1], adj_y ? -1 : -2), &inner));
  ShapeHandle batch;
  TF_RETURN_IF_ERROR(BroadcastBinaryOpOutputShapeFnHelper(c, batches[0], batches[1], true, &batch));
  const ShapeHandle matrix = c->Matrix(c->Dim(sides[0], adj_x ? -1 : -2), c->Dim(sides[1], adj_y ? -2 : -1));
  ShapeHandle out;
  TF_RETURN_IF_ERROR(c->Concatenate(batch, matrix, &out));
  c->set_output(0, out);
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterGatherBatchMatMul")
    .Input("x: float")
    .Input("y: float")
    .Input("rows: Trows")
    .Output("product: float")
    .Attr("Trows: {int32, int64}")
    .Attr("gathered: {'x', 'y'}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .SetShapeFn(GatherBatchMatMulShapes)
    .Doc(R"doc(
BatchMatMul(Gather(x, rows), y), or BatchMatMul(x, Gather(y, rows)), without what Gather would write.

x, y: [n, …, m, k] and [n, …, k, n'], their last two dimensions in turn where adj_x or adj_y is set; of one rank of at least 3. The dimensions
  between may be 1 on one side, as may the first of the side that is not gathered; these are broadcast.
rows: [batch], rows of the gathered side; others are InvalidArgument. One serves all rows of the other side. Sums are in another order than
  BatchMatMul's.
product: [batch, …, m, n'].
)doc");

}  // namespace tensorflow
