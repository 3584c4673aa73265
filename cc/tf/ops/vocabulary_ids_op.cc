// The ids of many features' keys in their vocabularies by one op.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status VocabularyIdsShapes(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  ShapeHandle unused;
  for (int i = 0; i < n; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &unused));
    TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * n + i), 0, &unused));
    c->set_output(i, c->input(n + i));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterVocabularyIds")
    .Input("tables: N * resource")
    .Input("keys: N * T")
    .Input("default_ids: N * int64")
    .Output("ids: N * int64")
    .Attr("N: int >= 1")
    .Attr("T: {int64, string}")
    .Attr("buckets: list(int) = []")
    .SetIsStateful()
    .SetShapeFn(VocabularyIdsShapes)
    .Doc(R"doc(
What LookupTableFindV2 finds in static lookup tables, for many at once. Keys that were asked for before are found without TensorFlow's table.

tables: HashTableV2, from keys of T to int64. keys: of any shapes.
default_ids: scalars, for keys that a table has not. ids: of the keys' shapes.
buckets: for each table how many there are for such keys, in place of the default, numbered from the table's size by the keys' StringToHashBucketFast
(of integers, their digits'); 0 for none, as none at all.
)doc");

}  // namespace tensorflow
