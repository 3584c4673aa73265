// A part of a graph that goes by row, compiled for few sizes of a batch:
//
//   padded, rows, pads = PadRows(values)     to a bucket, if that pays
//   …                                         Switch by pads; there compiled ops, here the program's on the values as
//   they are taken              = TakeFirstRows(what the compiled ops yield, rows)
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// values[i] with another number of rows, for the first `count` outputs.
Status OtherRows(InferenceContext* c, int count) {
  for (int i = 0; i < count; ++i) {
    ShapeHandle value, rest, changed;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(i), 1, &value));
    TF_RETURN_IF_ERROR(c->Subshape(value, 1, &rest));
    TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(c->UnknownDim()), rest, &changed));
    c->set_output(i, changed);
  }
  return OkStatus();
}

Status PadRowsShapes(InferenceContext* c) {
  const int count = c->num_inputs();
  TF_RETURN_IF_ERROR(OtherRows(c, count));
  c->set_output(count, c->Vector(2));
  c->set_output(count + 1, c->Scalar());
  return OkStatus();
}

Status TakeFirstRowsShapes(InferenceContext* c) {
  ShapeHandle rows;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(c->num_inputs() - 1), 1, &rows));
  return OtherRows(c, c->num_inputs() - 1);
}

}  // namespace

REGISTER_OP("TfBoosterPadRows")
    .Input("values: T")
    .Output("padded: T")
    .Output("rows: int64")
    .Output("pads: bool")
    .Attr("T: list(type) >= 1")
    .Attr("times: list(int) >= 1")
    .Attr("fewest: int >= 1")
    .SetShapeFn(PadRowsShapes)
    .Doc(R"doc(
Values of a batch with so many rows that few sizes occur: the last row is there again as often as it takes.

values: [rows * times[i], …] each, of numbers or bool, with one number of rows for all.
times: for each value, how many of its rows are of one row of the batch.
fewest: batches of fewer rows are not padded.
padded: [bucket * times[i], …], where bucket is the least of 32, 48, 64, 96, 128, … that is not below rows; values as they are if
  pads is false.
rows: [rows, bucket].
pads: false if there are fewer rows than `fewest`, or values with different numbers of rows.
)doc");

REGISTER_OP("TfBoosterTakeFirstRows")
    .Input("values: T")
    .Input("rows: int64")
    .Output("taken: T")
    .Attr("T: list(type) >= 1")
    .Attr("times: list(int) >= 1")
    .SetShapeFn(TakeFirstRowsShapes)
    .Doc(R"doc(
The rows that PadRows was given, without those that it added; no row is copied.

values: [bucket * times[i], …] each; other numbers of rows are InvalidArgument.
rows: [rows, bucket], from PadRows.
taken: [rows * times[i], …].
)doc");

}  // namespace tensorflow
