// Many narrow tensors beside each other: ConcatV2 and SplitV along the last axis.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status ConcatColumnsShape(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  ShapeHandle rows = c->UnknownShape();
  DimensionHandle columns = c->MakeDim(0);
  for (int i = 0; i < n; ++i) {
    ShapeHandle value, leading;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(i), 1, &value));
    if (!c->RankKnown(value)) {
      columns = c->UnknownDim();
      continue;
    }
    TF_RETURN_IF_ERROR(c->Subshape(value, 0, -1, &leading));
    TF_RETURN_IF_ERROR(c->Merge(rows, leading, &rows));
    TF_RETURN_IF_ERROR(c->Add(columns, c->Dim(value, -1), &columns));
  }
  ShapeHandle out;
  TF_RETURN_IF_ERROR(c->Concatenate(rows, c->Vector(columns), &out));
  c->set_output(0, out);
  return OkStatus();
}

Status SplitColumnsShape(InferenceContext* c) {
  int n;
  TF_RETURN_IF_ERROR(c->GetAttr("num_split", &n));
  ShapeHandle value, sizes, leading;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &value));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &sizes));
  DimensionHandle unused;
  TF_RETURN_IF_ERROR(c->WithValue(c->Dim(sizes, 0), n, &unused));
  for (int i = 0; i < n; ++i) c->set_output(i, c->UnknownShape());
  if (!c->RankKnown(value)) return OkStatus();
  TF_RETURN_IF_ERROR(c->Subshape(value, 0, -1, &leading));
  const Tensor* known = c->input_tensor(1);
  for (int i = 0; i < n; ++i) {
    DimensionHandle columns = c->UnknownDim();
    if (known != nullptr) {
      const int64_t size = known->dtype() == DT_INT32 ? known->flat<int32_t>()(i) : known->flat<int64_t>()(i);
      if (size >= 0) columns = c->MakeDim(size);
    }
    ShapeHandle out;
    TF_RETURN_IF_ERROR(c->Concatenate(leading, c->Vector(columns), &out));
    c->set_output(i, out);
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterConcatColumns")
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double, half, bfloat16, int32, int64, bool}")
    .SetShapeFn(ConcatColumnsShape)
    .Doc(R"doc(
ConcatV2 along the last axis, made for many narrow tensors.

values: [..., columns] each, of equal rank of at least 1 and equal leading dimensions.
output: [..., sum of the columns].
)doc");

REGISTER_OP("TfBoosterSplitColumns")
    .Input("value: T")
    .Input("size_splits: Tlen")
    .Output("output: num_split * T")
    .Attr("num_split: int >= 1")
    .Attr("T: {float, double, half, bfloat16, int32, int64, bool}")
    .Attr("Tlen: {int32, int64} = DT_INT64")
    .SetShapeFn(SplitColumnsShape)
    .Doc(R"doc(
SplitV along the last axis, made for many narrow parts.

value: [..., columns], of rank 1 or more.
size_splits: [num_split], the columns of each part, which make up all; one of them may be -1, which is what the others leave.
)doc");

}  // namespace tensorflow
