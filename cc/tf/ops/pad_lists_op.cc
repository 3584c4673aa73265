// Lists of different lengths as rows of one tensor.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status PadListsShapes(InferenceContext* c) {
  ShapeHandle values, unused;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 2, &values));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &unused));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &unused));
  int64_t size;
  TF_RETURN_IF_ERROR(c->GetAttr("size", &size));
  const DimensionHandle length = size >= 0 ? c->MakeDim(size) : c->Dim(values, 1);
  TF_RETURN_IF_ERROR(c->ReplaceDim(values, 1, length, &values));
  c->set_output(0, values);
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterPadLists")
    .Input("values: T")
    .Input("lengths: int64")
    .Input("padding: T")
    .Output("padded: T")
    .Attr("T: type")
    .Attr("size: int = -1")
    .SetShapeFn(PadListsShapes)
    .Doc(R"doc(
Rows of lists whose padding is another one, or that are as long as `size` says: what padded_batch makes of the lists alone.

A list that is longer than `size` is the error of padded_batch.

values: of rank 2 at least; [i, j] for each j below the length of list i is an element of it.
lengths: of the lists; none if all are as long as `values` is wide.
padding: a scalar.
padded: the lists, and behind them the padding.
T: numbers, truths or strings.
size: of the second dimension; -1 for that of `values`.
)doc");

}  // namespace tensorflow
