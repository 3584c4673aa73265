// What depends on repeated features alone is computed once for each distinct row of them:
//
//   first_rows, row_of = RepeatedRows(features)      which rows are the same
//   few                = TakeRows(features, first_rows), TakeSparseRows(…)
//   …                                                 the program's ops, on the few
//   all                = TakeRows(what they yield, row_of)
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status RepeatedRowsShapes(InferenceContext* c) {
  std::vector<ShapeHandle> dense;
  TF_RETURN_IF_ERROR(c->input("dense", &dense));
  DimensionHandle rows = c->UnknownDim();
  for (const ShapeHandle& shape : dense) {
    ShapeHandle known;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(shape, 1, &known));
    // A feature of another batch is an error of the run, which names it.
    if (c->RankKnown(known) && !c->ValueKnown(rows)) rows = c->Dim(known, 0);
  }
  c->set_output(0, c->Vector(c->UnknownDim()));
  c->set_output(1, c->Vector(rows));
  return OkStatus();
}

// values[i]: [rows, …] of all rows.
Status TakeRowsShapes(InferenceContext* c) {
  ShapeHandle rows;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(c->num_inputs() - 1), 1, &rows));
  for (int i = 0; i < c->num_outputs(); ++i) {
    ShapeHandle value, rest, taken;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(i), 1, &value));
    TF_RETURN_IF_ERROR(c->Subshape(value, 1, &rest));
    TF_RETURN_IF_ERROR(c->Concatenate(rows, rest, &taken));
    c->set_output(i, taken);
  }
  return OkStatus();
}

Status TakeSparseRowsShapes(InferenceContext* c) {
  ShapeHandle indices, dense_shape, unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &indices));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &unused));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &dense_shape));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 1, &unused));
  DimensionHandle rank, entries = c->UnknownDim();
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(indices, 1), c->Dim(dense_shape, 0), &rank));
  c->set_output(0, c->Matrix(entries, rank));
  c->set_output(1, c->Vector(entries));
  c->set_output(2, c->Vector(rank));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterRepeatedRows")
    .Input("dense: Tdense")
    .Input("values: Tvalues")
    .Input("indices: num_sparse * int64")
    .Input("dense_shapes: num_sparse * int64")
    .Output("first_rows: int32")
    .Output("row_of: int32")
    .Attr("Tdense: list(type) >= 0")
    .Attr("Tvalues: list(type) >= 0")
    .Attr("num_sparse: int >= 0")
    .Attr("names: list(string)")
    .SetShapeFn(RepeatedRowsShapes)
    .Doc(R"doc(
Which rows of a batch are the same in all features.

dense: [batch, …] each, strings among them. values, indices, dense_shapes: the parts of SparseTensors; entries of a row count in
  their order, with their places. Equal are rows whose bytes are, so 0.0 and -0.0 differ.
first_rows: the first row of each kind, [distinct], ascending; empty for an empty batch.
row_of: for each row the place in first_rows of the one that is equal to it, [batch].
names: of the dense features and then of the sparse ones, for errors. Features of different batches are InvalidArgument.
)doc");

REGISTER_OP("TfBoosterTakeRows")
    .Input("values: T")
    .Input("rows: Tindex")
    .Output("taken: T")
    .Attr("T: list(type) >= 1")
    .Attr("Tindex: {int32, int64} = DT_INT32")
    .SetShapeFn(TakeRowsShapes)
    .Doc(R"doc(
taken[i][j] = values[i][rows[j]], for many tensors by one op.

values: [n, …] each, of any types. rows: [m], each in [0, n) for every tensor; others are InvalidArgument.
)doc");

REGISTER_OP("TfBoosterTakeSparseRows")
    .Input("indices: int64")
    .Input("values: T")
    .Input("dense_shape: int64")
    .Input("rows: int32")
    .Output("taken_indices: int64")
    .Output("taken_values: T")
    .Output("taken_shape: int64")
    .Attr("T: type")
    .SetShapeFn(TakeSparseRowsShapes)
    .Doc(R"doc(
Rows of a SparseTensor: row j of what comes is row rows[j] of what was given; entries stand row by row, within a row as they did.

taken_shape: dense_shape with the number of rows in place of the first dimension.
)doc");

}  // namespace tensorflow
