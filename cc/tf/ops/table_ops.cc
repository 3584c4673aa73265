// The ops on hash tables: signatures, shapes and documentation. Kernels are in cc/tf/kernels.
//
// In a training graph a table is used like this (tf_booster/passes builds it); a fused table has a field for each of
// the original tables, and its ops take the ids, codes and gradients of all features that are looked up together:
//
//   table                                      = HashTable()
//   codes…, keys, key_fields, counts, handles  = TableProbe(table, [ids…])     deduplicates, finds rows; inserts
//   nothing values…                                    = TableGather(table, [codes…], keys, key_fields, handles)
//   TableApplyAdam(table, [keys], [key_fields], [counts], [handles], [codes…], [grads…], …)
//                                              counts sightings, inserts, updates, evicts
//
// A code names a key of one probe: code = (group << 40) | (1 + place in `keys`); 0 stands for "no id" (what TensorFlow
// fills empty rows with) and reads as zeros. Codes are small and never negative, so they pass TensorFlow's own chains
// (pruning of negative ids, filling of empty rows, Unique) where raw int64 ids would be lost, and the update needs no
// second hashing. Probes of one table that feed one update have different groups, so their codes stay apart when
// gradients are concatenated.
#include <vector>

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
    .Attr("memory_fraction: float = 0.75")
    .Attr("directory: string = ''")
    .Attr("lenders: list(string) = []")
    .Attr("lent_checkpoint: string = ''")
    .Attr("needs_restore: bool = false")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc(R"doc(
The hash table of this session with the given name; made at its first use.

The list attributes have one entry for each field (an ordinary table has one field); initializer_args has two.

optimizer: name of the fused optimizer whose slots the rows carry, or '' for none.
initializers: 'constant' (args: value, 0), 'uniform' (minimum, maximum), 'normal' or 'truncated_normal' (mean, stddev).
evictions: '', 'idle' (arg: max_idle_steps), 'lru' or 'lfu' (arg: max_rows).
memory_fraction: how full memory may be of rows. On a GPU, of its own, and further ones are in the host's memory; on the
  CPU, with a directory, of the machine's or its cgroup's memory, whoever takes it, and further ones are there.
directory: on the CPU, a folder of a disk where rows go for which there is no memory; '' for none.
lenders: prefixes to which TableSave has written, or names of TableLend. If it wrote a table of the same fields there that has not changed since, in any session of
  this process on the same device, then that one is read, and not made anew; it cannot be changed through this handle.
lent_checkpoint: with lenders, the checkpoint that came of it. A TableRestore of it does nothing for a table that is lent. '': none did, and
  where no table is lent it is FailedPrecondition.
needs_restore: reading it is FailedPrecondition until each field was restored or given rows by name, as in a graph for serving: it
  would answer with first values.
)doc");

REGISTER_OP("TfBoosterTableField")
    .Input("fused: resource")
    .Output("table: resource")
    .Attr("field: int >= 0")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc("One of the tables that a fused table consists of, for all ops that are about a single table.");

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
    .Input("ids: N * int64")
    .Output("codes: N * int64")
    .Output("keys: int64")
    .Output("key_fields: int32")
    .Output("counts: int64")
    .Output("handles: int64")
    .Attr("N: int >= 1")
    .Attr("fields: list(int) = []")
    .Attr("group: int >= 0 = 0")
    .Attr("skip_missing: list(bool) = []")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      const int n = c->num_inputs() - 1;
      for (int i = 0; i < n; ++i) c->set_output(i, c->input(1 + i));
      ShapeHandle distinct = c->Vector(c->UnknownDim());
      for (int i = n; i < n + 4; ++i) c->set_output(i, distinct);
      return OkStatus();
    })
    .Doc(R"doc(
Deduplicates ids and finds their rows. Inserts nothing, counts nothing.

ids: any shape, any int64. fields: the field of each of ids; empty: all 0.
skip_missing: in which of ids −1 stands for none, as in dense features; its code is −1. Empty: in none of them.
codes: for each id (group << 40) | (1 + its place in keys); same shape as ids.
keys, key_fields: the distinct pairs, [u]. counts: how often each occurs, [u]. handles: where each row lives, -1 where there is none, [u].
)doc");

REGISTER_OP("TfBoosterTableGather")
    .Input("table: resource")
    .Input("codes: N * int64")
    .Input("keys: int64")
    .Input("key_fields: int32")
    .Input("handles: int64")
    .Output("values: N * float")
    .Attr("N: int >= 1")
    .Attr("dim: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      for (int i = 0; i < c->num_outputs(); ++i) TF_RETURN_IF_ERROR(RowsOfKeys(c, c->input(1 + i), dim, i));
      return OkStatus();
    })
    .Doc(
        "Embeddings of codes made by one TableProbe: codes.shape + [dim]. Code 0 gives zeros, a key without a row its "
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
      c->set_output(0, c->Vector(9));
      return OkStatus();
    })
    .Doc(
        "[rows, pending keys, evicted rows, step, index capacity, bytes, bytes of these in the host's memory of a "
        "table on a GPU, bytes of these on a disk of a table on the CPU, whether it is on a GPU]; of a table in a "
        "fused "
        "one capacity and bytes are its share.");

REGISTER_OP("TfBoosterTableExport")
    .Input("table: resource")
    .Output("keys: N * int64")
    .Output("values: N * float")
    .Output("slots: S * float")
    .Output("frequencies: N * int64")
    .Output("last_use_steps: N * int64")
    .Output("pending_keys: N * int64")
    .Output("pending_counts: N * int64")
    .Output("step: N * int64")
    .Output("seed: N * int64")
    .Output("optimizer: string")
    .Attr("N: int >= 1 = 1")
    .Attr("S: int >= 0 = 0")
    .Attr("dim: int >= 1")
    .Attr("fields: list(int) = []")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim, n, s;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      TF_RETURN_IF_ERROR(c->GetAttr("S", &s));
      std::vector<shape_inference::DimensionHandle> rows;
      std::vector<ShapeHandle> pending;
      for (int64_t i = 0; i < n; ++i) {
        rows.push_back(c->UnknownDim());
        pending.push_back(c->Vector(c->UnknownDim()));
      }
      int out = 0;
      const auto vectors = [&] {
        for (int64_t i = 0; i < n; ++i) c->set_output(out++, c->Vector(rows[i]));
      };
      vectors();
      for (int64_t i = 0; i < n; ++i) c->set_output(out++, c->Matrix(rows[i], c->MakeDim(dim)));
      for (int64_t i = 0; i < s; ++i)
        c->set_output(out++, c->Matrix(s % n ? c->UnknownDim() : rows[i * n / s], c->MakeDim(dim)));
      vectors();
      vectors();
      for (int turn = 0; turn < 2; ++turn) {
        for (int64_t i = 0; i < n; ++i) c->set_output(out++, pending[i]);
      }
      while (out < c->num_outputs()) c->set_output(out++, c->Scalar());
      return OkStatus();
    })
    .Doc(R"doc(
A consistent picture of N whole fields; row i of every [rows, …] output of a field belongs to its keys[i].

S: N times the table's slots, all of a field together; or 0 to leave the slots out (before the rewrite nobody knows how many there are).
fields: N distinct ones; empty, where N is 1: that of the handle.
)doc");

REGISTER_OP("TfBoosterTableSave")
    .Input("tables: N * resource")
    .Input("prefix: string")
    .Attr("N: int >= 1")
    .Attr("sizes: list(int)")
    .Attr("fields: list(int)")
    .Attr("checkpoint_names: list(string)")
    .Attr("with_slots: list(bool)")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
Writes whole fields of tables as one V2 checkpoint: <name>/keys, /values, /slots/<slot>, …, what TableExport gives, in some megabytes of memory.

A table is not updated while its fields are written.

prefix: scalar, the path of the checkpoint to write, without '.index'. sizes: how many of `fields` and their checkpoint_names are of each table, one table after the other.
)doc");

REGISTER_OP("TfBoosterTableLend")
    .Input("tables: N * resource")
    .Attr("N: int >= 1")
    .Attr("lender: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
Lends whole tables as they are now to HashTable ops of other sessions that name the lender.
)doc");

REGISTER_OP("TfBoosterTableMarks")
    .Input("tables: N * resource")
    .Output("marks: int64")
    .Attr("N: int >= 1")
    .Attr("sizes: list(int)")
    .Attr("fields: list(int)")
    .Attr("checkpoint_names: list(string)")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Matrix(c->UnknownDim(), 4));
      return OkStatus();
    })
    .Doc(R"doc(
Where fields of tables stand, for TableSaveIncrement to write later what changed since; attributes as TableSave's.

From the first time on, the fields list the keys that eviction removes.

marks: a row for each field: its step, how often it was edited otherwise than by updates, how many rows were evicted, and from which of these on their keys are listed; but for the step counts of this process.
)doc");

REGISTER_OP("TfBoosterTableSaveIncrement")
    .Input("tables: N * resource")
    .Input("since: int64")
    .Input("all_keys: bool")
    .Input("number: int64")
    .Input("prefix: string")
    .Attr("N: int >= 1")
    .Attr("sizes: list(int)")
    .Attr("fields: list(int)")
    .Attr("checkpoint_names: list(string)")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
Writes what changed in fields of tables as one V2 checkpoint: <name>/keys, /values of the rows that changed, /increment, /since_step, /step, and, where rows have left, /left_keys, or /all_keys if it is not known which.

A table is not updated while its fields are written.

since: [fields, 4], by TableMarks; a row of −1: before all there is. all_keys: [fields], of which /all_keys is wanted whatever is known. number: scalar, of this increment, one more than that of the one before.
prefix: scalar, the path of the checkpoint to write, without '.index'. sizes, fields, checkpoint_names: as TableSave's.
)doc");

REGISTER_OP("TfBoosterTableMatchesIncrement")
    .Input("tables: N * resource")
    .Input("prefix: string")
    .Output("matches: bool")
    .Attr("N: int >= 1")
    .Attr("sizes: list(int)")
    .Attr("fields: list(int)")
    .Attr("checkpoint_names: list(string)")
    .Attr("rank: int = 0")
    .Attr("size: int >= 1 = 1")
    .Attr("partition: {'hash', 'mod'} = 'hash'")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc(R"doc(
Whether fields of tables are where TableSaveIncrement found them: at that step, with the rows that it wrote, bit for bit, and no others that changed in its steps.

Not so, either, where the increment lacks a table, has it otherwise, or cannot be read.

prefix: scalar, its path without '.index'. sizes, fields, checkpoint_names: as TableSave's. rank, size, partition: as TableRestore's.
)doc");

REGISTER_OP("TfBoosterTableApplyIncrement")
    .Input("tables: N * resource")
    .Input("prefix: string")
    .Output("rows: int64")
    .Output("removed: int64")
    .Attr("N: int >= 1")
    .Attr("sizes: list(int)")
    .Attr("fields: list(int)")
    .Attr("checkpoint_names: list(string)")
    .SetIsStateful()
    .SetShapeFn(ScalarOutputs)
    .Doc(R"doc(
Puts an increment that TableSaveIncrement wrote upon fields of tables: assigns its rows, and removes those that left.

All is read and checked first. Lookups meanwhile see each row before or after. FailedPrecondition: increments between the table and this one are missing. AlreadyExists: all fields have it.

prefix: scalar, its path without '.index'. sizes, fields, checkpoint_names: as TableSave's. rows, removed: scalars, how many were assigned, and removed.
)doc");

REGISTER_OP("TfBoosterTableRestore")
    .Input("table: resource")
    .Input("prefix: string")
    .Attr("checkpoint_names: list(string) >= 1")
    .Attr("fields: list(int) = []")
    .Attr("rank: int = 0")
    .Attr("size: int >= 1 = 1")
    .Attr("partition: {'hash', 'mod'} = 'hash'")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
Replaces fields of the table by what a V2 checkpoint holds under checkpoint_names[i]/keys, /values, /slots/<slot>, ….

The table changes when all is read, some megabytes at a time, and checked; other fields stay. Slots of another optimizer are left, and the table's own start anew.

prefix: scalar, the checkpoint's path without '.index'. fields: one for each name; empty, for one name: that of the handle.
rank, size, partition: the table keeps the keys of which this rank of `size` is the owner (cc/core/hash_table/partition.h).
)doc");

}  // namespace tensorflow
