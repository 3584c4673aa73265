// The ops that carry lookups and gradients between ranks where tables are on cards. Those that end in Plan, and
// TableMerge, run on the host, on keys alone; the others on the card, on rows. TableRoute and the messages are those of
// table_exchange_ops.cc, which tells what inputs and outputs of the same names are:
//
//   codes…, message, splits, slots…, sent…, starts = TableRoute([ids…], rows)
//     all-to-all: ids to their owners
//   asked_…, keys…, …, owner_codes…, received…, scales, splits, starts, fingerprint = TableMerge(message, splits)
//   message, keys…, key_fields…, handles… = TableServeRows(tables…, asked_…, keys…, …)
//     all-to-all: rows back
//   places… = TableExpandPlan([codes…], splits, slots, starts)
//   values… = TableTakeRows(message, places…)
//   begins…, terms…, to…, heads, …, splits = TableSendPlan([codes…], slots…, sent…, notes)
//   message = TableSendRows([grads…], begins…, terms…, to…, heads, …)
//     all-to-all: gradients to the owners
//   heads = TableReceiveHeads(message, splits, received…)
//   indices…, begins…, terms…, term_scales…, notes = TableReceivePlan(heads, splits, owner_codes…, received…, scales)
//   values… = TableReceiveRows(message, begins…, terms…, term_scales…)
#include <vector>

#include "cc/tf/ops/exchange_attrs.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status VectorShapes(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
  return OkStatus();
}

int64_t IntOf(InferenceContext* c, const char* name) {
  int64_t value = InferenceContext::kUnknownDim;
  return c->GetAttr(name, &value).ok() ? value : InferenceContext::kUnknownDim;
}

// Matrices of unknown numbers of rows, and dims[i] columns.
Status RowShapes(InferenceContext* c) {
  std::vector<int64_t> dims;
  TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
  for (int i = 0; i < c->num_outputs(); ++i) {
    c->set_output(i, c->Matrix(c->UnknownDim(), i < static_cast<int>(dims.size()) ? dims[i] : -1));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterTableMerge")
    .Input("message: int32")
    .Input("splits: int32")
    .Output("asked_keys: P * int64")
    .Output("asked_fields: P * int32")
    .Output("asked_codes: P * int64")
    .Output("keys: P * int64")
    .Output("key_fields: P * int32")
    .Output("counts: P * int64")
    .Output("owner_codes: P * int64")
    .Output("received: P * int32")
    .Output("scales: float")
    .Output("reply_splits: int32")
    .Output("starts: int64")
    .Output("fingerprint: int32")
    .TFB_EXCHANGE_ATTRS.Attr("reduction: {'average', 'average_of_ranks', 'sum'} = 'average'")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      const int64_t p = IntOf(c, "P"), ranks = IntOf(c, "ranks");
      TF_RETURN_IF_ERROR(VectorShapes(c));
      for (int64_t i = 0; i < p; ++i) {
        c->set_output(static_cast<int>(7 * p + i), c->Matrix(ranks + 1, c->UnknownDim()));
      }
      const int last = static_cast<int>(8 * p);
      c->set_output(last, c->Vector(ranks));
      c->set_output(last + 1, c->Vector(ranks));
      c->set_output(last + 2, c->Matrix(p, ranks));
      c->set_output(last + 3, c->Vector(1));
      return OkStatus();
    })
    .Doc(R"doc(
The distinct ids that all ranks asked this one for.

asked_keys, asked_fields: all of them. asked_codes: the codes, by these, of what each rank asked for, rank by rank.
keys, key_fields, counts, owner_codes, received, scales: as of TableServe, without the keys that only ranks without rows asked for; keys and
key_fields are empty where there are no such keys.
reply_splits: words for each rank in the message of rows. starts: where in it the rows of each probe for each rank begin, [P, ranks].
fingerprint: what each part of it begins with.
)doc");

REGISTER_OP("TfBoosterTableServeRows")
    .Input("tables: P * resource")
    .Input("asked_keys: P * int64")
    .Input("asked_fields: P * int32")
    .Input("asked_codes: P * int64")
    .Input("fingerprint: int32")
    .Input("keys: P * int64")
    .Input("key_fields: P * int32")
    .Input("received: P * int32")
    .Input("reply_splits: int32")
    .Input("starts: int64")
    .Output("reply: int32")
    .Output("owned_keys: P * int64")
    .Output("owned_fields: P * int32")
    .Output("handles: P * int64")
    .Attr("P: int >= 1")
    .Attr("dims: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(VectorShapes)
    .Doc(R"doc(
The rows that all ranks asked this one for, on the card, from what TableMerge says. Inserts nothing, counts nothing.

owned_keys, owned_fields: keys and key_fields, on the card. handles: of these.
)doc");

REGISTER_OP("TfBoosterTableExpandPlan")
    .Input("codes: N * int64")
    .Input("splits: int32")
    .Input("slots: int64")
    .Input("starts: int64")
    .Output("places: N * int32")
    .Attr("N: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("probe: int >= 0")
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(i));
      return OkStatus();
    })
    .Doc(
        "Where in the message of rows, whose splits are given, the rows of codes made by TableRoute begin, in words: "
        "codes.shape. Code 0 gives -1. probe: the row of `starts`.");

REGISTER_OP("TfBoosterTableTakeRows")
    .Input("message: int32")
    .Input("places: N * int32")
    .Output("values: N * float")
    .Attr("N: int >= 1")
    .Attr("dim: int >= 1")
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) {
        ShapeHandle out;
        TF_RETURN_IF_ERROR(c->Concatenate(c->input(1 + i), c->Vector(IntOf(c, "dim")), &out));
        c->set_output(i, out);
      }
      return OkStatus();
    })
    .Doc("Embeddings out of the rows that came back: places.shape + [dim]. Place -1 gives zeros.");

REGISTER_OP("TfBoosterTableSendPlan")
    .Input("codes: M * int64")
    .Input("slots: P * int64")
    .Input("sent: P * int32")
    .Input("notes: int64")
    .Output("begins: M * int32")
    .Output("terms: M * int32")
    .Output("to: M * int32")
    .Output("heads: int32")
    .Output("head_begins: int32")
    .Output("starts: int32")
    .Output("splits: int32")
    .Output("sizes: int64")
    .TFB_GRADIENT_ATTRS.SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      const int m = static_cast<int>(IntOf(c, "M"));
      const int64_t ranks = IntOf(c, "ranks");
      TF_RETURN_IF_ERROR(VectorShapes(c));
      c->set_output(3 * m + 1, c->Vector(ranks + 1));
      c->set_output(3 * m + 2, c->Vector(ranks));
      c->set_output(3 * m + 3, c->Vector(ranks));
      c->set_output(3 * m + 4, c->Vector(m));
      return OkStatus();
    })
    .Doc(R"doc(
Which rows of M gradients are summed for the owners of their keys, and where the sums go.

begins, terms, to: sum i of a gradient has the terms begins[i] to before begins[i + 1], which are rows of the gradient, and goes to word to[i].
heads: what stands in front of the rows; [head_begins[r], head_begins[r + 1]) of it from word starts[r] on. sizes: rows of each gradient.
)doc");

REGISTER_OP("TfBoosterTableSendRows")
    .Input("grads: M * float")
    .Input("begins: M * int32")
    .Input("terms: M * int32")
    .Input("to: M * int32")
    .Input("heads: int32")
    .Input("head_begins: int32")
    .Input("starts: int32")
    .Input("splits: int32")
    .Input("sizes: int64")
    .Output("message: int32")
    .Attr("M: int >= 1")
    .Attr("dims: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(VectorShapes)
    .Doc("The message of gradients, from what TableSendPlan says. grads: [sizes[i], dims[i]].");

REGISTER_OP("TfBoosterTableReceiveHeads")
    .Input("message: int32")
    .Input("splits: int32")
    .Input("received: P * int32")
    .Output("heads: int32")
    .TFB_GRADIENT_ATTRS.SetShapeFn(VectorShapes)
    .Doc("As much of each rank's part of the message as TableReceivePlan has to see, one after another.");

REGISTER_OP("TfBoosterTableReceivePlan")
    .Input("heads: int32")
    .Input("splits: int32")
    .Input("owner_codes: P * int64")
    .Input("received: P * int32")
    .Input("scales: float")
    .Output("indices: M * int64")
    .Output("begins: M * int32")
    .Output("terms: M * int32")
    .Output("term_scales: M * float")
    .Output("notes: int64")
    .TFB_GRADIENT_ATTRS.Attr("limits: list(int) = []")
    .Attr("limit_names: list(string) = []")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(VectorShapes(c));
      c->set_output(static_cast<int>(4 * IntOf(c, "M")), c->Matrix(IntOf(c, "ranks"), IntOf(c, "num_notes")));
      return OkStatus();
    })
    .Doc(R"doc(
What the owner adds up of the message of gradients.

indices, notes, limits, limit_names: as of TableReceiveGradients. begins, terms, term_scales: sum i of a gradient has the terms begins[i] to before
begins[i + 1], each term_scales times the row at word `terms` of the message.
)doc");

REGISTER_OP("TfBoosterTableReceiveRows")
    .Input("message: int32")
    .Input("begins: M * int32")
    .Input("terms: M * int32")
    .Input("term_scales: M * float")
    .Output("values: M * float")
    .Attr("M: int >= 1")
    .Attr("dims: list(int) >= 1")
    .SetShapeFn(RowShapes)
    .Doc("The sums that TableReceivePlan describes: [m, dims[i]].");

}  // namespace tensorflow
