// Lines that are split at a delimiter, as tensors.
#include <string>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;

Status SplitLinesShapes(InferenceContext* c) {
  std::vector<std::string> gives;
  TF_RETURN_IF_ERROR(c->GetAttr("gives", &gives));
  for (int i = 0; i < c->num_outputs(); ++i) {
    const bool one = gives[i] == "element" || gives[i] == "count";
    c->set_output(i, one ? c->Vector(InferenceContext::kUnknownDim) : c->UnknownShape());
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterSplitLines")
    .Input("lines: string")
    .Input("paddings: P")
    .Output("values: T")
    .Attr("T: list({float, double, int32, int64, string})")
    .Attr("P: list({float, double, int32, int64, string}) >= 0")
    .Attr("delimiter: string")
    .Attr("empty: {'kept', 'kept in texts', 'skipped'}")
    .Attr("inner_delimiter: string = ''")
    .Attr("inner_empty: {'kept', 'kept in texts', 'skipped'} = 'kept'")
    .Attr("range_types: list({float, double, int32, int64, string})")
    .Attr("range_begins: list(int)")
    .Attr("range_ends: list(int)")
    .Attr("range_parts: list(int)")
    .Attr("range_counts: list(int)")
    .Attr("ranges: list(int)")
    .Attr("begins: list(int)")
    .Attr("ends: list(int)")
    .Attr("gives: list({'slice', 'element', 'padded', 'count'})")
    .Attr("sizes: list(int)")
    .SetShapeFn(SplitLinesShapes)
    .Doc(R"doc(
For many lines at once what functions of one line make of StringSplit or StringSplitV2, slices, Split and StringToNumber.

A line has pieces; ranges of them are read as numbers, or stay strings; of each range outputs give slices or elements, or say how long a slice
is. Places are those of Python: negative ones count from the end, and slices take what is there. Lines of which a slice has different shapes
are an error, as batching the results would be, but for slices that are padded to the longest.

lines: of any shape; rows of outputs are in their order.
paddings: scalars, what the padded outputs are padded with, in their order.
values: a matrix for a slice, a vector for an element or a count, and a tensor of rank 3 for a slice of parts.
T: the types of outputs; of a count int32 or int64, of others that of their range.
P: the types of `paddings`, which are those of the outputs.
range_types: for each range the type of its pieces, which must all be numbers of that type, wanted or not.
delimiter: one character, or none: at blanks, of which any number are one then.
empty: what becomes of empty pieces; of those that are kept in texts an empty line has none.
inner_delimiter: what ranges with parts are split at once more, all into as many parts.
inner_empty: what becomes of empty parts.
range_begins: for each range its first piece.
range_ends: for each range the piece behind its last one; the largest int64 for all.
range_parts: for each range the number of the wanted part, of `range_counts`.
range_counts: how many parts of equal size the parts of a piece are split into; 0 if the wanted part is one alone; -1 for whole pieces.
ranges: for each output the number of its range.
begins: for each output the first element of its range; for an indexed one, the only one.
ends: for each output the element behind the last; the largest int64 for all.
gives: for each output what it has of a line: a slice, one element, a slice that is padded, which is none of parts, or how many elements there are in a slice.
sizes: for each output how many elements a line must have; -1 for any number.
)doc");

}  // namespace tensorflow
