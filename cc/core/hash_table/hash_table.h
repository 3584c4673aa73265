// A table of embedding rows under int64 keys, for dynamic vocabularies: the interface that the CPU and the GPU share.
//
// For each key it keeps a row [embedding | slot 0 | slot 1 | …] of (1 + slots) * dim floats, the key's frequency (how
// often it was seen in training) and its last-use step. Rows never move; growth rehashes the index alone. A table
// starts small and needs no capacity. It never drops, overwrites or zeroes a row by itself: it grows, or fails with
// ResourceExhausted and is as it was before the call.
//
// Every method takes a batch, may be called from any thread at any time, and may use `pf`'s threads. Duplicate keys
// within a batch are fine unless a method says otherwise. Every int64 is a valid key.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_HASH_TABLE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_HASH_TABLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/lines_ahead.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"
#include "cc/core/hash_table/field_changes.h"
#include "cc/core/hash_table/row_handle.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

// Keys of a batch, borrowed. `fields` is null when all keys belong to `field`.
struct KeyBatch {
  const int64_t* keys = nullptr;
  const uint32_t* fields = nullptr;
  int64_t size = 0;
  uint32_t field = 0;
};

struct TableStats {
  int64_t rows = 0;     // Admitted rows.
  int64_t pending = 0;  // Keys that were seen and not admitted yet.
  int64_t evicted = 0;  // Rows removed by eviction since the table was made.
  int64_t step = 0;     // Updates so far, the clock of last-use steps; of a whole table that of its oldest field.
  int64_t index_capacity = 0;  // Entries that the index has room for; of a field its share, by its keys.
  int64_t bytes = 0;           // Memory of index and slabs; of a field its share, by its keys.
  int64_t disk_bytes = 0;  // Of these, on a disk, of a table in the host's memory that has no room for all its rows.
  int64_t host_bytes = 0;  // Of these, in the host's memory, of a table on a card that has no room for all its rows.
};

// The whole of one field as arrays, or a piece of it, borrowed: where Export writes and Import reads; entry i of every
// array of rows belongs to the same key.
template <class I64, class F32>
struct BasicContentsRef {
  uint32_t field = 0;
  int64_t rows = 0;
  int64_t pending = 0;
  I64* keys = nullptr;
  F32* values = nullptr;    // rows * dim
  std::vector<F32*> slots;  // Each rows * dim. Import: empty, or a null entry, starts that slot at its initial value.
  I64* frequencies = nullptr;  // Import: null means 1.
  I64* last_steps = nullptr;   // Import: null means `step`.
  I64* pending_keys = nullptr;
  I64* pending_counts = nullptr;
  int64_t step = 0;
  std::optional<uint64_t> seed;  // Import: without it the field keeps its own.
};
using ContentsOut = BasicContentsRef<int64_t, float>;
using ContentsIn = BasicContentsRef<const int64_t, const float>;

// A part of one of a field's arrays, as ExportPieces and ExportChanges give it.
enum class ContentsArray {
  kKeys,
  kValues,
  kSlot,
  kFrequencies,
  kLastSteps,
  kPendingKeys,
  kPendingCounts,
  kAllKeys,
  kLeftKeys
};
struct ContentsPiece {
  size_t place = 0;  // Of the field among those that were asked for.
  ContentsArray array = ContentsArray::kKeys;
  size_t slot = 0;  // Of kSlot.
  const void* data = nullptr;
  int64_t bytes = 0;
};

// What comes in place of a field, a piece at a time.
struct ContentsSource {
  uint32_t field = 0;
  int64_t rows = 0, pending = 0;  // About how many there are, so that room is made at once; 0 if nobody knows.
  int64_t step = 0;
  std::optional<uint64_t> seed;  // Without it the field keeps its own.
  // Gives the next rows and pending keys, any number of them; none: there are no more. Its arrays stay until the next
  // call. An error ends the import.
  std::function<Status(ContentsIn*)> next;
};

// One training step's update of distinct keys.
struct UpdateBatch {
  KeyBatch keys;                       // Distinct.
  const int64_t* counts = nullptr;     // Sightings of each key in the training batch, at least 1; null: 1 each.
  const RowHandle* handles = nullptr;  // As FindHandles gave them; null: probe.
  std::vector<uint32_t> fields;        // Those that step, with keys in the batch or without; empty: all.
};

// One of the arrays of codes that Gather turns into rows.
struct GatherPart {
  const int64_t* codes = nullptr;
  int64_t size = 0;
  float* out = nullptr;  // size * dim
};

// Some of the admitted keys of an update: positions[j] is a key's place in the batch and rows[j] its row
// [embedding | slots].
struct RowVisit {
  const int64_t* positions = nullptr;
  float* const* rows = nullptr;  // In no cache, most likely. An update fetches them ahead of itself.
  int64_t size = 0;
  int64_t following = 0;  // Behind `size`: those of the next visit, for an update to fetch at the end of this one.
  bool first = true;      // No visit came before that had these as its following.
  LinesAhead ahead;       // What the table reads next. An update may ignore it.
};

// Calls may come from several threads at once, each key in exactly one of them.
using RowUpdateFn = FunctionRef<void(const RowVisit&)>;

class HashTable {
 public:
  virtual ~HashTable() = default;

  virtual const TableOptions& options() const = 0;

  // out[i] (dim floats) = embedding of key i; for an unknown or pending key the value that an insert would give.
  // Inserts nothing, counts nothing. `found`, if not null, gets 1 for admitted keys and 0 for others.
  virtual Status Find(const KeyBatch& keys, float* out, uint8_t* found, ParallelFor& pf) const = 0;

  // handles[i] = the row of key i, or kNoRow. Inserts nothing, counts nothing.
  virtual Status FindHandles(const KeyBatch& keys, RowHandle* handles, ParallelFor& pf) const = 0;

  // out[i] (dim floats) = embedding of keys.keys[codes[i] - 1] through its handle, in each part; code 0 gives zeros,
  // and a key without a row its initial value. Only the low 40 bits of a code count. A code above keys.size is
  // InvalidArgument.
  virtual Status Gather(const KeyBatch& keys, const RowHandle* handles, const std::vector<GatherPart>& parts,
                        ParallelFor& pf) const = 0;

  // As Find, but inserts missing keys (past the admission filter) with their initial values first. Frequencies of
  // inserted keys start at 1, those of others do not change.
  virtual Status FindOrInsert(const KeyBatch& keys, float* out, ParallelFor& pf) = 0;

  // Embedding of key i = values[i]; inserts missing keys, whose slots start at their initial values. Of duplicates, the
  // last.
  virtual Status InsertOrAssign(const KeyBatch& keys, const float* values, ParallelFor& pf) = 0;

  // Removes keys, pending ones too; unknown keys are fine. `erased`, if not null, gets how many rows were removed.
  virtual Status Erase(const KeyBatch& keys, int64_t* erased, ParallelFor& pf) = 0;

  // One step: advances the clock of each field that steps, counts the sightings, admits the keys that reach
  // min_frequency with this batch (all sightings of the batch are counted first), sets last-use steps, calls `update`
  // on the rows of all admitted keys, and then evicts by the fields' policies. Where a batch's new rows do not fit,
  // nothing of all this happens. A key of a field that does not step is InvalidArgument.
  virtual Status Update(const UpdateBatch& batch, RowUpdateFn update, ParallelFor& pf) = 0;

  // Makes room for `rows` rows in all.
  virtual Status Reserve(int64_t rows, ParallelFor& pf) = 0;

  // A consistent picture of distinct fields, in the order of `fields`. `allocate` is called once with counts, step and
  // seed of each filled in and sets the arrays' addresses (or leaves null what is not wanted, or returns an error); no
  // update happens meanwhile.
  virtual Status Export(const std::vector<uint32_t>& fields, FunctionRef<Status(std::vector<ContentsOut>*)> allocate,
                        ParallelFor& pf) const = 0;

  // The same picture without room for all of it: some 20 bytes a row and a buffer. `begin` is called once with counts,
  // step and seed of each field; then `write` gets, field by field, keys, values, if `with_slots` each slot,
  // frequencies, last steps, pending keys and their counts, each as pieces one behind the other. An error of either
  // ends it. No update happens meanwhile, and neither may call the table.
  virtual Status ExportPieces(const std::vector<uint32_t>& fields, bool with_slots,
                              FunctionRef<Status(const std::vector<ContentsOut>&)> begin,
                              FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const = 0;

  // From now on the field lists the keys that its eviction removes, the latest eighth of its rows or 65,536 of them;
  // again, when it has grown. Where there is no memory, it does not.
  virtual Status ListLeaving(uint32_t field) = 0;
  // Where a field stands now, for ExportChanges later.
  virtual Status ReadMark(uint32_t field, FieldMark* mark) const = 0;

  // The rows of distinct fields that changed since a mark of each, in one picture. `begin` is called once, with what is
  // settled of each; then `write` gets, field by field, keys and values of those rows, and kAllKeys or kLeftKeys if it
  // is settled so, each as pieces one behind the other. Memory and errors as ExportPieces; of a CPU table 1 bit a row
  // and some 32 bytes a row that changed.
  virtual Status ExportChanges(std::vector<FieldChanges> changes,
                               FunctionRef<Status(const std::vector<FieldChanges>&)> begin,
                               FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const = 0;

  // Replaces distinct fields, each as a whole; other fields stay. Keys of a field must be distinct (InvalidArgument
  // otherwise), within a limit, and fit. On error the table is as it was; readers see all of it or nothing.
  virtual Status ImportPieces(const std::vector<ContentsSource>& sources, ParallelFor& pf) = 0;
  Status Import(const std::vector<ContentsIn>& contents, ParallelFor& pf);  // Each field in one piece.

  // Removes all keys of a field, pending ones too. Its clock and seed stay.
  virtual Status Clear(uint32_t field) = 0;

  virtual TableStats Stats() const = 0;
  virtual Status FieldStats(uint32_t field, TableStats* stats) const = 0;
  virtual int64_t FieldSize(uint32_t field) const = 0;  // Admitted rows of one field.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_HASH_TABLE_H_
