// Dense features as sparse ones, many by one op.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;

Status SparseFromDenseShapes(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  for (int i = 0; i < n; ++i) {
    const DimensionHandle entries = c->UnknownDim();
    const bool known = c->RankKnown(c->input(i));
    c->set_output(i, c->Matrix(entries, known ? c->MakeDim(c->Rank(c->input(i))) : c->UnknownDim()));
    c->set_output(n + i, c->Vector(entries));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterSparseFromDense")
    .Input("dense: N * T")
    .Output("indices: N * int64")
    .Output("values: N * T")
    .Attr("N: int >= 1")
    .Attr("T: {int32, int64, string}")
    .SetShapeFn(SparseFromDenseShapes)
    .Doc(R"doc(
The entries of dense features other than -1, or the empty string: Where(NotEqual(dense, -1)) and GatherNd by it, for each of them.

dense: of any rank. indices: [entries, rank], values: [entries], in the order of `dense`.
)doc");

}  // namespace tensorflow
