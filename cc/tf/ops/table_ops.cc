// The ops on hash tables: signatures, shapes and documentation. Kernels are in cc/tf/kernels.
//
// In a training graph a table T is used like this (tf_booster/passes builds it):
//
//   table                        = HashTable()                    one per table
//   codes, keys, counts, handles = TableProbe(table, ids)         one per lookup: deduplicates, finds rows; inserts
//   nothing values                       = TableGather(table, codes, keys, handles) TableApplyAdam(table, [keys],
//   [counts], [handles], codes, grad, …)   counts sightings, inserts, updates, evicts
//
// A code names a key of one probe: code = (group << 40) | (1 + place in `keys`); 0 stands for "no id" (what TensorFlow
// fills empty rows with) and reads as zeros. Codes are small and never negative, so they pass TensorFlow's own chains
// (pruning of negative ids, filling of empty rows, Unique) where raw int64 ids would be lost, and the update needs no
// second hashing. Probes of one table that feed one update have different groups, so their codes stay apart when
// gradients are concatenated.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status ScalarOutputs(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return OkStatus();
}

// keys -> [keys.shape, dim of the `dim` attr or unknown].
Status RowsOfKeys(InferenceContext* c, ShapeHandle keys, int64_t dim, int output) {
  ShapeHandle out;
  TF_RETURN_IF_ERROR(c->Concatenate(keys, c->Vector(dim > 0 ? c->MakeDim(dim) : c->UnknownDim()), &out));
  c->set_output(output, out);
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterHashTable")
    .Output("table: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("table_name: string")
    .Attr("dim: int >= 1")
    .Attr("optimizer: string = ''")
    .Attr("slot_names: list(string) = []")
    .Attr("slot_initial_values: list(float) = []")
    .Attr("field_names: list(string)")
    .Attr("seeds: list(int)")
    .Attr("initializers: list(string)")
    .Attr("initializer_args: list(float)")
    .Attr("min_frequencies: list(int)")
    .Attr("max_rows: list(int)")
    .Attr("evictions: list(string)")
    .Attr("eviction_args: list(int)")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc(R"doc(
The hash table of this session with the given name; made at its first use.

The list attributes have one entry for each field (an ordinary table has one field); initializer_args has two.

optimizer: name of the fused optimizer whose slots the rows carry, or '' for none.
initializers: 'constant' (args: value, 0), 'uniform' (minimum, maximum), 'normal' or 'truncated_normal' (mean, stddev).
evictions: '', 'idle' (arg: max_idle_steps), 'lru' or 'lfu' (arg: max_rows).
)doc");

REGISTER_OP("TfBoosterStandInTable")
    .Output("table: resource")
    .Attr("table_name: string")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc("Stands for a table until the graph is rewritten; fails when it is run.");

REGISTER_OP("TfBoosterStandInIds")
    .Input("ids: int64")
    .Output("codes: int64")
    .Attr("table_name: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc("Stands for TableProbe until the graph is rewritten; fails when it is run.");

REGISTER_OP("TfBoosterTableProbe")
    .Input("table: resource")
    .Input("ids: int64")
    .Output("codes: int64")
    .Output("keys: int64")
    .Output("counts: int64")
    .Output("handles: int64")
    .Attr("group: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(1));
      ShapeHandle distinct = c->Vector(c->UnknownDim());
      for (int i = 1; i < 4; ++i) c->set_output(i, distinct);
      return OkStatus();
    })
    .Doc(R"doc(
Deduplicates ids and finds their rows. Inserts nothing, counts nothing.

ids: any shape, any int64.
codes: for each id (group << 40) | (1 + its place in keys); same shape as ids.
keys: the distinct ids, [u]. counts: how often each occurs, [u]. handles: where each row lives, -1 where there is none, [u].
)doc");

REGISTER_OP("TfBoosterTableGather")
    .Input("table: resource")
    .Input("codes: int64")
    .Input("keys: int64")
    .Input("handles: int64")
    .Output("values: float")
    .Attr("dim: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      return RowsOfKeys(c, c->input(1), dim, 0);
    })
    .Doc(
        "Embeddings of codes made by TableProbe: codes.shape + [dim]. Code 0 gives zeros, a key without a row its "
        "initial value.");

REGISTER_OP("TfBoosterTableFind")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("values: float")
    .Output("found: bool")
    .Attr("dim: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      c->set_output(1, c->input(1));
      return RowsOfKeys(c, c->input(1), dim, 0);
    })
    .Doc(
        "Embeddings of keys: keys.shape + [dim]; of an unknown key the value that an insert would give. Inserts "
        "nothing.");

REGISTER_OP("TfBoosterTableFindOrInsert")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("values: float")
    .Attr("dim: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      return RowsOfKeys(c, c->input(1), dim, 0);
    })
    .Doc(
        "Embeddings of keys, keys.shape + [dim]; inserts missing keys with their initial values, past the admission "
        "filter.");

REGISTER_OP("TfBoosterTableInsertOrAssign")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("values: float")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(
        "Sets the embeddings of keys [n] to values [n, dim]; of duplicates the last counts. Slots of new rows start at "
        "their initial values.");

REGISTER_OP("TfBoosterTableErase")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("erased: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc("Removes keys [n]; unknown ones are fine. Returns how many rows were removed.");

REGISTER_OP("TfBoosterTableClear")
    .Input("table: resource")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc("Removes all keys.");

REGISTER_OP("TfBoosterTableSize")
    .Input("table: resource")
    .Output("size: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc("Number of admitted rows.");

REGISTER_OP("TfBoosterTableStats")
    .Input("table: resource")
    .Output("stats: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(6));
      return OkStatus();
    })
    .Doc("[rows, pending keys, evicted rows, step, index capacity, bytes].");

REGISTER_OP("TfBoosterTableExport")
    .Input("table: resource")
    .Output("keys: int64")
    .Output("values: float")
    .Output("slots: num_slots * float")
    .Output("frequencies: int64")
    .Output("last_use_steps: int64")
    .Output("pending_keys: int64")
    .Output("pending_counts: int64")
    .Output("step: int64")
    .Output("seed: int64")
    .Output("optimizer: string")
    .Attr("dim: int >= 1")
    .Attr("num_slots: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim, slots;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      TF_RETURN_IF_ERROR(c->GetAttr("num_slots", &slots));
      auto rows = c->UnknownDim();
      int out = 0;
      c->set_output(out++, c->Vector(rows));
      for (int64_t i = 0; i < 1 + slots; ++i) c->set_output(out++, c->Matrix(rows, c->MakeDim(dim)));
      c->set_output(out++, c->Vector(rows));
      c->set_output(out++, c->Vector(rows));
      auto pending = c->Vector(c->UnknownDim());
      c->set_output(out++, pending);
      c->set_output(out++, pending);
      for (int i = 0; i < 3; ++i) c->set_output(out++, c->Scalar());
      return OkStatus();
    })
    .Doc(R"doc(
A consistent picture of the whole table; row i of every [rows, …] output belongs to keys[i].

num_slots: the table's, or 0 to leave the slots out (before the rewrite nobody knows how many there are).
)doc");

REGISTER_OP("TfBoosterTableRestore")
    .Input("table: resource")
    .Input("prefix: string")
    .Attr("checkpoint_name: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
Replaces the table by the one that a V2 checkpoint holds under `checkpoint_name`/keys, /values, /slots/<slot>, ….

All is read and checked before the table changes. Slots of another optimizer are left, and the table's own start anew.

prefix: scalar, the checkpoint's path without '.index'.
)doc");

}  // namespace tensorflow
