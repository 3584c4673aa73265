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
    .Attr("longer: {'of padded_batch', 'of pad', 'cut'} = 'of padded_batch'")
    .Attr("in_front: bool = false")
    .SetShapeFn(PadListsShapes)
    .Doc(R"doc(
Rows of lists whose padding is another one, or that are as long as `size` says: what padded_batch, or a Pad of each, makes of the lists alone.

values: of rank 2 at least; [i, j] for each j below the length of list i is an element of it.
lengths: of the lists; none if all are as long as `values` is wide.
padding: a scalar.
padded: the lists, and behind or in front of them the padding.
T: numbers, truths or strings.
size: of the second dimension; -1 for that of `values`.
longer: what becomes of a list that is longer than `size`: the error of padded_batch or of Pad, or its first elements.
in_front: whether the padding is in front of the lists.
)doc");

REGISTER_OP("TfBoosterSliceLists")
    .Input("values: T")
    .Input("lengths: int64")
    .Input("padding: T")
    .Output("sliced: T")
    .Output("sliced_lengths: int64")
    .Attr("T: type")
    .Attr("begin: int = 0")
    .Attr("end: int = 9223372036854775807")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle values, lengths, unused;
      TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 2, &values));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &lengths));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &unused));
      TF_RETURN_IF_ERROR(c->ReplaceDim(values, 1, c->UnknownDim(), &values));
      c->set_output(0, values);
      c->set_output(1, lengths);
      return OkStatus();
    })
    .Doc(R"doc(
[begin:end] of each list, as Python and StridedSlice count: what is below 0 counts from the end of the list, and what is outside is left out.

values: of rank 2 at least; [i, j] for each j below the length of list i is an element of it.
lengths: of the lists.
padding: a scalar.
sliced: the slices, and behind them the padding, as wide as the longest one.
sliced_lengths: of the slices.
T: numbers, truths or strings.
)doc");

REGISTER_OP("TfBoosterListLengths")
    .Input("indices: int64")
    .Input("dense_shape: int64")
    .Output("lengths: int64")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return OkStatus();
    })
    .Doc(R"doc(
How many elements each row of a SparseTensor of rank 2 has.

indices: of the SparseTensor.
dense_shape: of the SparseTensor.
lengths: one for each row, also of those without elements.
)doc");

}  // namespace tensorflow
