// The ops that carry lookups and gradients of partitioned tables between ranks. Between each pair of them stands one
// all-to-all of the `message` with its `splits` (tf_booster/passes/table_exchange.py):
//
//   codes…, message, splits, slots…, sent…, starts = TableRoute([ids…], rows)
//     all-to-all: ids to their owners
//   message, splits, keys…, …, owner_codes…, received…, scales = TableServe(tables…, message, splits)
//     all-to-all: rows back
//   values… = TableExpand([codes…], message, slots, starts)
//   message, splits = TableSendGradients([codes…], [grads…], slots…, sent…, notes)
//     all-to-all: gradients to the owners
//   indices…, values… = TableReceiveGradients(message, splits, owner_codes…, received…, scales)
//   TableApplyAdam(table, [keys], …, [indices…], [values…], …)
//
// A message is longer than its splits add up to, and as long in most steps: Horovod negotiates anew when a tensor's
// shape changes, and sends what the splits say. All are int32 words; cc/core/exchange has their layout.
#include <vector>

#include "cc/tf/ops/exchange_attrs.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// [n] of an unknown n, from output `first` to before `end`.
void SetVectors(InferenceContext* c, int first, int end) {
  for (int i = first; i < end; ++i) c->set_output(i, c->Vector(c->UnknownDim()));
}

}  // namespace

REGISTER_OP("TfBoosterTableRoute")
    .Input("ids: N * int64")
    .Input("rows: float")
    .Output("codes: N * int64")
    .Output("message: int32")
    .Output("splits: int32")
    .Output("slots: P * int64")
    .Output("sent: P * int32")
    .Output("starts: int64")
    .Attr("N: int >= 1")
    .Attr("ids_segments: list(int) >= 1")
    .Attr("skip_missing: list(bool) = []")
    .TFB_EXCHANGE_ATTRS.SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int n, p;
      int64_t ranks;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      TF_RETURN_IF_ERROR(c->GetAttr("P", &p));
      TF_RETURN_IF_ERROR(c->GetAttr("ranks", &ranks));
      for (int i = 0; i < n; ++i) c->set_output(i, c->input(i));
      c->set_output(n, c->Vector(c->UnknownDim()));
      c->set_output(n + 1, c->Vector(ranks));
      SetVectors(c, n + 2, n + 2 + p);
      for (int i = 0; i < p; ++i) c->set_output(n + 2 + p + i, c->Matrix(ranks, c->UnknownDim()));
      c->set_output(n + 2 + 2 * p, c->Matrix(p, ranks));
      return OkStatus();
    })
    .Doc(R"doc(
Deduplicates the ids of all features and sorts them by the rank that owns them.

ids: any shape, any int64; ids_segments: the segment of each. rows: of this rank's batch, for gradients' weights; 0: nothing of it counts.
skip_missing: as of TableProbe. codes: for each id (group << 40) | (1 + its place among the probe's keys); same shape as ids.
slots: for each key of a probe the rank that owns it and its row's place, [u]. sent: keys for each rank, [ranks, segments of the probe].
starts: where the rows of each probe from each rank will begin, [P, ranks].
)doc");

REGISTER_OP("TfBoosterTableServe")
    .Input("tables: P * resource")
    .Input("message: int32")
    .Input("splits: int32")
    .Output("reply: int32")
    .Output("reply_splits: int32")
    .Output("keys: P * int64")
    .Output("key_fields: P * int32")
    .Output("counts: P * int64")
    .Output("handles: P * int64")
    .Output("owner_codes: P * int64")
    .Output("received: P * int32")
    .Output("scales: float")
    .TFB_EXCHANGE_ATTRS.Attr("reduction: {'average', 'average_of_ranks', 'sum'} = 'average'")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int p;
      int64_t ranks;
      TF_RETURN_IF_ERROR(c->GetAttr("P", &p));
      TF_RETURN_IF_ERROR(c->GetAttr("ranks", &ranks));
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Vector(ranks));
      SetVectors(c, 2, 2 + 5 * p);
      for (int i = 0; i < p; ++i) c->set_output(2 + 5 * p + i, c->Matrix(ranks + 1, c->UnknownDim()));
      c->set_output(2 + 6 * p, c->Vector(ranks));
      return OkStatus();
    })
    .Doc(R"doc(
Looks up, at their owner, the ids that all ranks asked for. Inserts nothing, counts nothing.

tables: of each probe. keys, key_fields, counts, handles: as of TableProbe on the joined batch's ids that are this rank's own; keys that
only ranks without rows asked for are left out of them.
owner_codes: the codes, by these keys, of what each rank asked for, rank by rank; 0 for keys left out. received: how many keys came, and
in the last row how many are distinct, [ranks + 1, segments]. scales: what the gradients of each rank are multiplied by, [ranks]: its
share of all rows, 1 / ranks or 1, as reduction says; 0 where a rank has no rows.
)doc");

REGISTER_OP("TfBoosterTableExpand")
    .Input("codes: N * int64")
    .Input("message: int32")
    .Input("slots: int64")
    .Input("starts: int64")
    .Output("values: N * float")
    .Attr("N: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("probe: int >= 0")
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      for (int i = 0; i < c->num_outputs(); ++i) {
        ShapeHandle out;
        TF_RETURN_IF_ERROR(c->Concatenate(c->input(i), c->Vector(dim), &out));
        c->set_output(i, out);
      }
      return OkStatus();
    })
    .Doc(
        "Embeddings of codes made by TableRoute, out of the rows that came back: codes.shape + [dim]. Code 0 gives "
        "zeros. probe: the row of `starts`.");

REGISTER_OP("TfBoosterTableSendGradients")
    .Input("codes: M * int64")
    .Input("grads: M * float")
    .Input("slots: P * int64")
    .Input("sent: P * int32")
    .Input("notes: int64")
    .Output("message: int32")
    .Output("splits: int32")
    .TFB_GRADIENT_ATTRS.SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t ranks;
      TF_RETURN_IF_ERROR(c->GetAttr("ranks", &ranks));
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Vector(ranks));
      return OkStatus();
    })
    .Doc(R"doc(
Sums the gradients of equal keys, in the order of their occurrence, and sorts them by owner.

codes, grads: M gradients, each [n] and [n, dims[i]]; code 0 is skipped. by_row: rows of one key of this gradient are not summed.
notes: what all ranks shall know, [num_notes].
)doc");

REGISTER_OP("TfBoosterTableReceiveGradients")
    .Input("message: int32")
    .Input("splits: int32")
    .Input("owner_codes: P * int64")
    .Input("received: P * int32")
    .Input("scales: float")
    .Output("indices: M * int64")
    .Output("values: M * float")
    .Output("notes: int64")
    .TFB_GRADIENT_ATTRS.Attr("limits: list(int) = []")
    .Attr("limit_names: list(string) = []")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int m;
      std::vector<int64_t> dims;
      int64_t ranks, notes;
      TF_RETURN_IF_ERROR(c->GetAttr("M", &m));
      TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
      TF_RETURN_IF_ERROR(c->GetAttr("ranks", &ranks));
      TF_RETURN_IF_ERROR(c->GetAttr("num_notes", &notes));
      for (int i = 0; i < m; ++i) {
        const auto rows = c->UnknownDim();
        c->set_output(i, c->Vector(rows));
        c->set_output(m + i, c->Matrix(rows, c->MakeDim(i < static_cast<int>(dims.size()) ? dims[i] : -1)));
      }
      c->set_output(2 * m, c->Matrix(ranks, notes));
      return OkStatus();
    })
    .Doc(R"doc(
Adds up, at the owner, what the ranks sent of each gradient, in the order of ranks: sum of scales[rank] times the rank's own sum.

indices, values: of each gradient the codes, by the owner's keys, and the sums, [m] and [m, dims[i]]. notes: of each rank, [ranks, num_notes].
limits: of rows, of the tables limit_names, over all ranks. Where notes begin with what TableGrowth says of these and the sum is above a limit,
ResourceExhausted on all ranks alike.
)doc");

REGISTER_OP("TfBoosterTableGrowth")
    .Input("table: resource")
    .Input("keys: P * int64")
    .Input("key_fields: P * int32")
    .Input("handles: P * int64")
    .Output("growth: int64")
    .Attr("P: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(2));
      return OkStatus();
    })
    .Doc(
        "[rows that the table has here, rows that an update by these probes will add]. Of a table with min_frequency "
        "the second "
        "is 0: what is admitted is counted with the next step.");

}  // namespace tensorflow
