// Many lookups of a step as one op each: what safe_embedding_lookup_sparse and embedding_lookup build around a gather.
//
//   ids, idx, row_splits, row_is_empty = PrepareLookups(values, indices, dense_shapes, weights)   prune, fill, unique
//   rows                               = MultiGather(variables, ids)                              or tables, or
//   anything pooled                             = PoolLookups(rows, idx, row_splits, row_is_empty)         one row for
//   each example gradient of rows                   = PoolLookupsGrad(gradient of pooled, rows, idx, row_splits,
//   row_is_empty)
//
// Every list has one entry for each lookup; lists that a step does not need (weights, indices of dense ids) are empty.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// The rows of lookup i: the product of its leading dimensions, as far as they are known.
Status RowsOfLookup(InferenceContext* c, int i, int n, int num_sparse, int num_shapes, int leading,
                    DimensionHandle* rows) {
  ShapeHandle shape = c->UnknownShape();
  if (num_sparse == 0) {
    shape = c->input(i);
  } else if (num_shapes > 0) {
    TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(n + num_sparse + i, &shape));
  }
  *rows = c->UnknownDim();
  if (!c->RankKnown(shape)) return OkStatus();
  if (c->Rank(shape) < leading) return errors::InvalidArgument("leading_dims is larger than the rank of the ids");
  *rows = c->MakeDim(1);
  for (int d = 0; d < leading; ++d) TF_RETURN_IF_ERROR(c->Multiply(*rows, c->Dim(shape, d), rows));
  return OkStatus();
}

Status PrepareLookupsShapes(InferenceContext* c) {
  int n, num_sparse, num_shapes, num_weights;
  bool fill_rows;
  std::vector<int64_t> leading_dims;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  TF_RETURN_IF_ERROR(c->GetAttr("num_sparse", &num_sparse));
  TF_RETURN_IF_ERROR(c->GetAttr("num_shapes", &num_shapes));
  TF_RETURN_IF_ERROR(c->GetAttr("num_weights", &num_weights));
  TF_RETURN_IF_ERROR(c->GetAttr("fill_rows", &fill_rows));
  TF_RETURN_IF_ERROR(c->GetAttr("leading_dims", &leading_dims));
  if (static_cast<int>(leading_dims.size()) != n) return errors::InvalidArgument("leading_dims must have N entries");
  for (int i = 0; i < n; ++i) {
    DimensionHandle rows;
    TF_RETURN_IF_ERROR(RowsOfLookup(c, i, n, num_sparse, num_shapes, static_cast<int>(leading_dims[i]), &rows));
    DimensionHandle splits;
    TF_RETURN_IF_ERROR(c->Add(rows, 1, &splits));
    c->set_output(i, c->Vector(c->UnknownDim()));
    c->set_output(n + i, c->Vector(c->UnknownDim()));
    c->set_output(2 * n + i, c->Vector(splits));
    if (fill_rows) c->set_output(3 * n + i, c->Vector(rows));
  }
  const int first_weight = fill_rows ? 4 * n : 3 * n;
  for (int i = 0; i < num_weights; ++i) c->set_output(first_weight + i, c->Vector(c->UnknownDim()));
  return OkStatus();
}

// [the rows of row_splits, embedding's dim]. Input i is the embeddings, or the handle of a Variable that has them.
Status PooledShape(InferenceContext* c, int i, int n, ShapeHandle* pooled) {
  ShapeHandle rows = c->input(i), splits;
  DataType dtype;
  if (!c->GetAttr("Tids", &dtype).ok()) {
    TF_RETURN_IF_ERROR(c->WithRank(rows, 2, &rows));
  } else {
    const auto* handle = c->input_handle_shapes_and_types(i);
    const bool known = handle != nullptr && !handle->empty() && c->RankKnown((*handle)[0].shape);
    rows = c->UnknownShapeOfRank(2);
    if (known) TF_RETURN_IF_ERROR(c->WithRank((*handle)[0].shape, 2, &rows));
  }
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * n + i), 1, &splits));
  DimensionHandle batch = c->UnknownDim();
  if (c->ValueKnown(c->Dim(splits, 0))) TF_RETURN_IF_ERROR(c->Subtract(c->Dim(splits, 0), 1, &batch));
  *pooled = c->Matrix(batch, c->Dim(rows, 1));
  return OkStatus();
}

Status PooledShapes(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  for (int i = 0; i < n; ++i) {
    ShapeHandle pooled;
    TF_RETURN_IF_ERROR(PooledShape(c, i, n, &pooled));
    c->set_output(i, pooled);
  }
  return OkStatus();
}

// Those lookups that `order` names beside each other, with the other matrices, and the rest as of PoolLookups.
Status JoinedShapes(InferenceContext* c) {
  int n, num_others;
  DataTypeVector types;
  std::vector<int64_t> order;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  if (c->GetAttr("Tothers", &types).ok()) {
    num_others = static_cast<int>(types.size());
  } else {
    TF_RETURN_IF_ERROR(c->GetAttr("num_others", &num_others));
  }
  TF_RETURN_IF_ERROR(c->GetAttr("order", &order));
  std::vector<ShapeHandle> parts(n + num_others);
  for (int i = 0; i < n; ++i) TF_RETURN_IF_ERROR(PooledShape(c, i, n, &parts[i]));
  for (int i = 0; i < num_others; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(c->num_inputs() - num_others + i), 2, &parts[n + i]));
  }
  DimensionHandle rows = c->UnknownDim(), columns = c->MakeDim(0);
  std::vector<bool> is_joined(parts.size(), false);
  for (const int64_t part : order) {
    if (part < 0 || part >= static_cast<int64_t>(parts.size()) || is_joined[part]) {
      return errors::InvalidArgument("order must name lookups and others, each at most once; it has ", part);
    }
    is_joined[part] = true;
    TF_RETURN_IF_ERROR(c->Merge(rows, c->Dim(parts[part], 0), &rows));
    TF_RETURN_IF_ERROR(c->Add(columns, c->Dim(parts[part], 1), &columns));
  }
  if (order.empty()) rows = c->MakeDim(0);
  c->set_output(0, c->Matrix(rows, columns));
  int next = 1;
  for (int i = 0; i < n; ++i) {
    if (is_joined[i]) continue;
    if (next >= c->num_outputs()) return errors::InvalidArgument("num_apart and order do not fit");
    c->set_output(next++, parts[i]);
  }
  if (next != c->num_outputs()) return errors::InvalidArgument("num_apart and order do not fit");
  return OkStatus();
}

// The shapes of rows.
Status GradientShapes(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  std::vector<int64_t> columns;
  TF_RETURN_IF_ERROR(c->GetAttr("grad_columns", &columns));
  if (!columns.empty() && static_cast<int>(columns.size()) != n) {
    return errors::InvalidArgument("grad_columns must have N entries or none");
  }
  for (int i = 0; i < n; ++i) {
    ShapeHandle gradient, rows;
    DimensionHandle dim;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &gradient));
    TF_RETURN_IF_ERROR(c->WithRank(c->input(n + i), 2, &rows));
    dim = c->Dim(rows, 1);
    if (columns.empty()) TF_RETURN_IF_ERROR(c->Merge(c->Dim(gradient, 1), dim, &dim));
    c->set_output(i, c->Matrix(c->Dim(rows, 0), dim));
  }
  return OkStatus();
}

// [ids' shape, the shape of the rows of Variable `first`].
ShapeHandle GatheredShape(InferenceContext* c, int first, ShapeHandle ids, Status* status) {
  const auto* handle = c->input_handle_shapes_and_types(first);
  ShapeHandle rest = c->UnknownShape(), out = c->UnknownShape();
  if (handle != nullptr && !handle->empty() && c->RankKnown((*handle)[0].shape)) {
    ShapeHandle variable;
    status->Update(c->WithRankAtLeast((*handle)[0].shape, 1, &variable));
    if (status->ok()) status->Update(c->Subshape(variable, 1, &rest));
    if (status->ok()) status->Update(c->Concatenate(ids, rest, &out));
  }
  return out;
}

Status GatherShapes(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  Status status;
  for (int i = 0; i < n; ++i) c->set_output(i, GatheredShape(c, i, c->input(n + i), &status));
  return status;
}

Status PartitionedGatherShapes(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  std::vector<int> parts;
  TF_RETURN_IF_ERROR(c->GetAttr("parts", &parts));
  Status status;
  int first = 0;
  for (int i = 0; i < c->num_outputs(); ++i) {
    if (i >= static_cast<int>(parts.size()) || parts[i] < 1 || first + parts[i] > n) {
      return errors::InvalidArgument("parts must have an entry for each list of indices, together N");
    }
    c->set_output(i, GatheredShape(c, first, c->input(n + i), &status));
    first += parts[i];
  }
  return status;
}

}  // namespace

REGISTER_OP("TfBoosterPrepareLookups")
    .Input("values: N * T")
    .Input("indices: num_sparse * int64")
    .Input("dense_shapes: num_shapes * int64")
    .Input("weights: num_weights * float")
    .Output("ids: N * Tids")
    .Output("idx: N * int32")
    .Output("row_splits: N * int32")
    .Output("row_is_empty: num_filled * bool")
    .Output("kept_weights: num_weights * float")
    .Attr("N: int >= 1")
    .Attr("T: {int32, int64, string}")
    .Attr("Tids: {int32, int64}")
    .Attr("num_sparse: int >= 0")
    .Attr("num_shapes: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("num_filled: int >= 0")
    .Attr("prune_ids: bool")
    .Attr("prune_weights: bool")
    .Attr("fill_rows: bool")
    .Attr("default_ids: list(int)")
    .Attr("leading_dims: list(int)")
    .Attr("hash_buckets: list(int)")
    .Attr("distinct: bool = true")
    .SetShapeFn(PrepareLookupsShapes)
    .Doc(R"doc(
The ids of N lookups, row by row and without duplicates.

A row outside the batch, rows that fall, and lists of different lengths are InvalidArgument.

values: sparse: [n] with indices [n, rank] (or [n]) and, with fill_rows, dense_shape [rank]. Dense (num_sparse 0): any shape;
  -1 (for strings '') is no id.
weights: [n]; of sparse ids only.
ids: the distinct ids [u] of each lookup, in the order of first sight.
idx: which of ids stands at each place, [m], row by row.
row_splits: row r has the places row_splits[r] to row_splits[r + 1]; [rows + 1].
row_is_empty: [rows]; with fill_rows only.
kept_weights: [m].
prune_ids: drop ids below 0.
prune_weights: drop ids whose weight is not above 0, as TensorFlow does for mean and sqrtn.
fill_rows: a row without ids gets default_ids[i] with weight 1; ids may then come in any order of rows. Otherwise the first
  column of indices is the row and must not fall, and the last one gives the number of rows.
leading_dims: how many dimensions make up a row.
hash_buckets: if above 0, the id is Fingerprint64 of the string (of the decimal digits of an integer) modulo this.
distinct: false: ids has the id of each place, [m], as TfBoosterPoolVariables reads them, and idx is empty. On the CPU only.
)doc");

REGISTER_OP("TfBoosterPoolLookups")
    .Input("rows: N * T")
    .Input("idx: N * int32")
    .Input("row_splits: N * int32")
    .Input("zero_rows: num_zeroed * bool")
    .Input("weights: num_weights * float")
    .Output("pooled: N * T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .Attr("num_zeroed: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("combiners: list({'sum', 'mean', 'sqrtn'})")
    .SetShapeFn(PooledShapes)
    .Doc(R"doc(
Sums embeddings up by the rows of a batch, with the numbers of TensorFlow's SparseSegment kernels.

rows: [u, dim]. idx [m], row_splits [batch + 1]: of PrepareLookups. pooled: [batch, dim]; a row without places is zeros.
zero_rows: [batch]; a row marked here is zeros whatever is at its places. weights: [m].
)doc");

REGISTER_OP("TfBoosterJoinedPoolLookups")
    .Input("rows: N * T")
    .Input("idx: N * int32")
    .Input("row_splits: N * int32")
    .Input("zero_rows: num_zeroed * bool")
    .Input("weights: num_weights * float")
    .Input("others: num_others * T")
    .Output("joined: T")
    .Output("apart: num_apart * T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .Attr("num_zeroed: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("num_others: int >= 0")
    .Attr("num_apart: int >= 0")
    .Attr("combiners: list({'sum', 'mean', 'sqrtn'})")
    .Attr("order: list(int)")
    .SetShapeFn(JoinedShapes)
    .Doc(R"doc(
The results of TfBoosterPoolLookups, and other matrices, beside each other: what ConcatV2 makes of them along axis 1.

others: [batch, columns] each.
order: the parts of `joined` from left to right; i is lookup i, N + i is others[i]. Each other stands there once, a lookup at
  most once, and one lookup at least.
joined: [batch, all columns].
apart: the results of the lookups that `order` does not name.
)doc");

REGISTER_OP("TfBoosterPoolVariables")
    .Input("resources: N * resource")
    .Input("ids: N * Tids")
    .Input("row_splits: N * int32")
    .Input("zero_rows: num_zeroed * bool")
    .Input("weights: num_weights * float")
    .Input("others: Tothers")
    .Output("joined: T")
    .Output("apart: num_apart * T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .Attr("Tids: {int32, int64}")
    .Attr("num_zeroed: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("Tothers: list({float, double}) >= 0")  // All T. A list tells its types also where it is empty.
    .Attr("num_apart: int >= 0")
    .Attr("combiners: list({'sum', 'mean', 'sqrtn'})")
    .Attr("order: list(int)")
    .SetIsStateful()
    .SetShapeFn(JoinedShapes)
    .Doc(R"doc(
TfBoosterJoinedPoolLookups of embeddings that are read in N Variables, where they lie: nothing is gathered.

An id outside its Variable is InvalidArgument; a Variable that is not initialized fails as ResourceGather does.

resources: of Variables [rows, dim].
ids: the rows at each place, [m]; of PrepareLookups without distinct.
order: as TfBoosterJoinedPoolLookups has it; or empty, with no others: all results are apart, and joined is [0, 0].
)doc");

REGISTER_OP("TfBoosterPoolLookupsGrad")
    .Input("grads: N * T")
    .Input("rows: N * T")
    .Input("idx: N * int32")
    .Input("row_splits: N * int32")
    .Input("zero_rows: num_zeroed * bool")
    .Input("weights: num_weights * float")
    .Output("row_grads: N * T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .Attr("num_zeroed: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("combiners: list({'sum', 'mean', 'sqrtn'})")
    .Attr("grad_columns: list(int) = []")
    .SetShapeFn(GradientShapes)
    .Doc(R"doc(
The gradients [u, dim] of the rows of PoolLookups, from those of pooled [batch, dim]; of rows only the shape counts.

grad_columns: with it, the gradient of lookup i is dim columns of grads[i], from grad_columns[i] on: a part of a wider
  matrix, where it lies. On the CPU only.
)doc");

REGISTER_OP("TfBoosterMultiGather")
    .Input("resources: N * resource")
    .Input("indices: N * Tindices")
    .Output("rows: N * dtype")
    .Attr("N: int >= 1")
    .Attr("dtype: {float, double, half, bfloat16, int32, int64}")
    .Attr("Tindices: {int32, int64}")
    .SetIsStateful()
    .SetShapeFn(GatherShapes)
    .Doc(R"doc(
ResourceGather of N Variables: rows[i] = variable i at indices[i], [indices.shape, variable.shape[1:]].

An index outside its Variable is InvalidArgument; a Variable that is not initialized fails as ResourceGather does.
)doc");

REGISTER_OP("TfBoosterPartitionedGather")
    .Input("resources: N * resource")
    .Input("indices: M * Tindices")
    .Output("rows: M * dtype")
    .Attr("parts: list(int)")
    .Attr("mod: list(bool)")
    .Attr("N: int >= 1")
    .Attr("M: int >= 1")
    .Attr("dtype: {float, double, half, bfloat16, int32, int64}")
    .Attr("Tindices: {int32, int64}")
    .SetIsStateful()
    .SetShapeFn(PartitionedGatherShapes)
    .Doc(R"doc(
tf.nn.embedding_lookup in M tables that several Variables hold each: rows[i] = rows of table i, [indices.shape, row].

The next parts[i] of the resources hold table i, divided as partition_strategy "mod" (mod[i]) or "div" says; the first
of them have one row more where that does not come out even. An index outside its table is InvalidArgument; a Variable
that is not initialized fails as ResourceGather does.
)doc");

}  // namespace tensorflow
