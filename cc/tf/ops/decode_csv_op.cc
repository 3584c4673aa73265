// Lines of comma-separated values as tensors.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status DecodeCsvShapes(InferenceContext* c) {
  for (int i = 1; i < c->num_inputs(); ++i) {
    ShapeHandle unused;
    TF_RETURN_WITH_CONTEXT_IF_ERROR(c->WithRankAtMost(c->input(i), 1, &unused), "default of field ", i - 1);
  }
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(0));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterDecodeCsv")
    .Input("records: string")
    .Input("record_defaults: OUT_TYPE")
    .Output("output: OUT_TYPE")
    .Attr("OUT_TYPE: list({float, double, int32, int64, string})")
    .Attr("field_delim: string = ','")
    .Attr("use_quote_delim: bool = true")
    .Attr("na_value: string = ''")
    .Attr("select_cols: list(int) = []")
    .Attr("single: bool = false")
    .Attr("whole: bool = false")
    .SetShapeFn(DecodeCsvShapes)
    .Doc(R"doc(
What DecodeCSV gives for the same inputs and attributes, and its errors.

records: lines, of any shape.
record_defaults: for each wanted field the value where a line has none, one element; none for a field that every line must have.
output: a tensor in the shape of `records` for each wanted field.
field_delim: one character.
select_cols: the numbers of the wanted fields, ascending; without any all fields are.
single: each line was a tensor of its own, and errors say so: it is record 0.
whole: what follows the last wanted field of a line must be well-formed, too, as CsvDataset wants it.
)doc");

}  // namespace tensorflow
