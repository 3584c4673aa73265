// Lists of Examples in messages, parsed.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/example_proto_helper.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// How many Examples there are is no more known than of TensorFlow's ops, lest its optimizer treat what follows in
// another way.
Status ParseExampleListsShape(InferenceContext* c) {
  ParseExampleAttrs attrs;
  TF_RETURN_IF_ERROR(attrs.Init(c, 2));
  std::vector<int32> numbers;
  TF_RETURN_IF_ERROR(c->GetAttr("field_numbers", &numbers));
  ShapeHandle serialized, unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &serialized));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &unused));
  for (const int keys : {2, 3, 4}) TF_RETURN_IF_ERROR(c->WithRank(c->input(keys), 1, &unused));
  const DimensionHandle batch = c->Dim(serialized, 0), unknown = c->UnknownDim();
  int output = 0;
  c->set_output(output++, c->Matrix(batch, static_cast<int64_t>(numbers.size())));
  for (size_t i = 1; i < numbers.size(); ++i) c->set_output(output++, c->Matrix(batch, c->UnknownDim()));
  c->set_output(output++, c->Vector(2));
  for (int64_t i = 0; i < attrs.num_sparse; ++i) c->set_output(output++, c->Matrix(unknown, 2));
  for (int64_t i = 0; i < attrs.num_sparse; ++i) c->set_output(output++, c->Vector(unknown));
  for (int64_t i = 0; i < attrs.num_sparse; ++i) c->set_output(output++, c->Vector(2));
  for (int64_t i = 0; i < attrs.num_dense; ++i) {
    ShapeHandle dense;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(attrs.dense_shapes[i], &dense));
    TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(unknown), dense, &dense));
    c->set_output(output++, dense);
  }
  for (int64_t i = 0; i < attrs.num_ragged; ++i) c->set_output(output++, c->Vector(unknown));
  for (int64_t i = 0; i < attrs.num_ragged; ++i) c->set_output(output++, c->Vector(unknown));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterParseExampleLists")
    .Input("serialized: string")
    .Input("list_size: int64")
    .Input("sparse_keys: string")
    .Input("dense_keys: string")
    .Input("ragged_keys: string")
    .Input("dense_defaults: Tdense")
    .Output("sizes: int32")
    .Output("values: num_values * string")
    .Output("examples_shape: int32")
    .Output("sparse_indices: num_sparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: num_sparse * int64")
    .Output("dense_values: Tdense")
    .Output("ragged_values: ragged_value_types")
    .Output("ragged_row_splits: ragged_split_types")
    .Attr("field_numbers: list(int) >= 1")
    .Attr("repeated: list(bool) >= 1")
    .Attr("examples: int >= 0")
    .Attr("num_values: int >= 0")
    .Attr("Tdense: list({float,int64,string}) >= 0")
    .Attr("num_sparse: int >= 0")
    .Attr("sparse_types: list({float,int64,string}) >= 0")
    .Attr("ragged_value_types: list({float,int64,string}) >= 0")
    .Attr("ragged_split_types: list({int32,int64}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .SetShapeFn(ParseExampleListsShape)
    .Doc(R"doc(
Lists of tf.train.Examples in messages such as TF-Ranking's ExampleListWithContext, parsed: DecodeProtoV2, the lists cut or
padded to one length and ParseExampleV2 in one, without the strings between. The same values and errors.

serialized: messages, [batch], one at least.
list_size: how many Examples of each list are parsed, where there are fewer empty ones with them; -1: as many as the longest list has, one at least.
sizes: [batch, fields], how many values each field has in each message, as DecodeProtoV2 counts.
values: the fields but for the lists of Examples, in the order of `field_numbers`: [batch, most values], padded with "".
examples_shape: [2], batch and the length of the longest list, one at least: the shape that the lists' strings would have.
dense_values: and all other features: of batch * list_size Examples, list by list, as ParseExampleV2 gives them.
field_numbers: of the message's fields, whose type is bytes, string or a message.
repeated: whether each of these fields is repeated.
examples: which of these fields is the list of Examples.
)doc");

}  // namespace tensorflow
