// The crosses of many features by one op.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status CrossColumnsShapes(InferenceContext* c) {
  int n, num_sparse;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  TF_RETURN_IF_ERROR(c->GetAttr("num_sparse", &num_sparse));
  ShapeHandle unused;
  for (int i = 0; i < num_sparse; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &unused));
    TF_RETURN_IF_ERROR(c->WithRank(c->input(num_sparse + i), 1, &unused));
  }
  for (int i = 2 * num_sparse; i < c->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), i < 3 * num_sparse ? 1 : 2, &unused));
  }
  for (int i = 0; i < n; ++i) {
    c->set_output(i, c->Matrix(c->UnknownDim(), 2));
    c->set_output(n + i, c->Vector(c->UnknownDim()));
    c->set_output(2 * n + i, c->Vector(2));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterCrossColumns")
    .Input("indices: num_sparse * int64")
    .Input("dense_shapes: num_sparse * int64")
    .Input("features: Tfeatures")
    .Output("cross_indices: N * int64")
    .Output("cross_values: N * int64")
    .Output("cross_shapes: N * int64")
    .Attr("N: int >= 1")
    .Attr("num_sparse: int >= 0")
    .Attr("Tfeatures: list({int32, int64, string}) >= 1")
    .Attr("skip_missing: list(bool)")
    .Attr("keys: list(int)")
    .Attr("num_keys: list(int)")
    .Attr("num_buckets: list(int)")
    .Attr("hash_keys: list(int)")
    .SetShapeFn(CrossColumnsShapes)
    .Doc(R"doc(
What SparseCross makes of int64 outputs, for many crosses at once: each combination of what a row has of a cross's features, as a bucket.

features: the values of num_sparse sparse features, [entries], with their `indices` [entries, 2], rows in order, and `dense_shapes`, [2];
  behind them dense ones, [rows, values of a row].
skip_missing: for each feature whether -1, or the empty string, stands for none; dense ones alone.
keys: of all crosses, one after the other, which features they are of; num_keys of each.
num_buckets: of each cross; 0 for all int64 from 0 on. hash_keys: of each, as SparseCross's hash_key.
cross_indices: [results, 2]; cross_values: [results]; cross_shapes: [2], the rows and the most results of one.
)doc");

}  // namespace tensorflow
