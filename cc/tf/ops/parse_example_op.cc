#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/example_proto_helper.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// serialized is [] or [n]; every output has its dimension in front, where it has one.
Status ParseExampleShape(InferenceContext* c) {
  ParseExampleAttrs attrs;
  TF_RETURN_IF_ERROR(attrs.Init(c, 2));
  ShapeHandle serialized, unused;
  TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(0), 1, &serialized));
  TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(1), 1, &unused));
  for (const int keys : {2, 3, 4}) TF_RETURN_IF_ERROR(c->WithRank(c->input(keys), 1, &unused));
  const bool known = c->RankKnown(serialized);
  const int64_t rank = known ? c->Rank(serialized) : 0;
  int output = 0;
  for (int64_t i = 0; i < attrs.num_sparse; ++i) {
    c->set_output(output++, known ? c->Matrix(InferenceContext::kUnknownDim, rank + 1)
                                  : c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
  }
  for (int64_t i = 0; i < attrs.num_sparse; ++i) c->set_output(output++, c->Vector(InferenceContext::kUnknownDim));
  for (int64_t i = 0; i < attrs.num_sparse; ++i) {
    c->set_output(output++, c->Vector(known ? rank + 1 : InferenceContext::kUnknownDim));
  }
  for (int64_t i = 0; i < attrs.num_dense; ++i) {
    ShapeHandle dense;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(attrs.dense_shapes[i], &dense));
    TF_RETURN_IF_ERROR(c->Concatenate(serialized, dense, &dense));
    c->set_output(output++, dense);
  }
  for (int64_t i = 0; i < attrs.num_ragged; ++i) c->set_output(output++, c->Vector(InferenceContext::kUnknownDim));
  for (int64_t i = 0; i < attrs.num_ragged; ++i) {
    shape_inference::DimensionHandle splits = c->UnknownDim();
    if (known && rank == 0) splits = c->MakeDim(0);
    if (known && rank == 1) TF_RETURN_IF_ERROR(c->Add(c->Dim(serialized, 0), 1, &splits));
    c->set_output(output++, c->Vector(splits));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterParseExample")
    .Input("serialized: string")
    .Input("names: string")
    .Input("sparse_keys: string")
    .Input("dense_keys: string")
    .Input("ragged_keys: string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: num_sparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: num_sparse * int64")
    .Output("dense_values: Tdense")
    .Output("ragged_values: ragged_value_types")
    .Output("ragged_row_splits: ragged_split_types")
    .Attr("Tdense: list({float,int64,string}) >= 0")
    .Attr("num_sparse: int >= 0")
    .Attr("sparse_types: list({float,int64,string}) >= 0")
    .Attr("ragged_value_types: list({float,int64,string}) >= 0")
    .Attr("ragged_split_types: list({int32,int64}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Attr("single: bool = false")
    .SetShapeFn(ParseExampleShape)
    .Doc(R"doc(
ParseExampleV2 of TensorFlow, with the same inputs, attributes and outputs, always served by tf_booster's parser.

single: whether records of a vector are read, and errors put, as by parse_single_example of each; no ragged features.
)doc");

}  // namespace tensorflow
