// The class behind NewCpuTable, for the files that implement it.
//
// Threads. One writer at a time holds `writer_`; what it does it may spread over pf's threads. It looks around freely,
// for nobody else changes anything, and changes what readers can reach in the writing room only, a few thousand keys a
// visit. Readers work in the reading room, likewise part by part. Nobody waits for other threads inside a room.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CPU_TABLE_IMPL_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CPU_TABLE_IMPL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "cc/core/base/room_lock.h"
#include "cc/core/hash_table/argument_checks.h"
#include "cc/core/hash_table/certain_room.h"
#include "cc/core/hash_table/cpu_table.h"
#include "cc/core/hash_table/insertion.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/missing_keys.h"
#include "cc/core/hash_table/new_row.h"
#include "cc/core/hash_table/row_swap.h"
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

// An array whose elements are not touched before they are written.
template <class T>
std::unique_ptr<T[]> NewUninitialized(int64_t size) {
  return std::unique_ptr<T[]>(new T[size]);
}

// Keys [begin, begin + size) of a batch.
inline KeyBatch PartOf(const KeyBatch& keys, int64_t begin, int64_t size) {
  return {keys.keys + begin, keys.fields == nullptr ? nullptr : keys.fields + begin, size, keys.field};
}

class CpuTable final : public HashTable {
 public:
  CpuTable(TableOptions options, const CpuTableConfig& config);

  const TableOptions& options() const override { return options_; }
  Status Find(const KeyBatch& keys, float* out, uint8_t* found, ParallelFor& pf) const override;
  Status FindHandles(const KeyBatch& keys, RowHandle* handles, ParallelFor& pf) const override;
  Status Gather(const KeyBatch& keys, const RowHandle* handles, const std::vector<GatherPart>& parts,
                ParallelFor& pf) const override;
  Status FindOrInsert(const KeyBatch& keys, float* out, ParallelFor& pf) override;
  Status InsertOrAssign(const KeyBatch& keys, const float* values, ParallelFor& pf) override;
  Status Erase(const KeyBatch& keys, int64_t* erased, ParallelFor& pf) override;
  Status Update(const UpdateBatch& batch, RowUpdateFn update, ParallelFor& pf) override;
  Status Reserve(int64_t rows, ParallelFor& pf) override;
  Status Export(const std::vector<uint32_t>& fields, FunctionRef<Status(std::vector<ContentsOut>*)> allocate,
                ParallelFor& pf) const override;
  Status ExportPieces(const std::vector<uint32_t>& fields, bool with_slots,
                      FunctionRef<Status(const std::vector<ContentsOut>&)> begin,
                      FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const override;
  Status ListLeaving(uint32_t field) override;
  Status ReadMark(uint32_t field, FieldMark* mark) const override;
  Status ExportChanges(std::vector<FieldChanges> changes, FunctionRef<Status(const std::vector<FieldChanges>&)> begin,
                       FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const override;
  Status ImportPieces(const std::vector<ContentsSource>& sources, ParallelFor& pf) override;
  Status Clear(uint32_t field) override;
  TableStats Stats() const override;
  Status FieldStats(uint32_t field, TableStats* stats) const override;
  int64_t FieldSize(uint32_t field) const override;

 private:
  std::unique_ptr<TableState> NewState() const;

  // Body of Find and FindOrInsert for keys [begin, end), in a room or as the writer. What is not null gets: `found`
  // whether each key has a row, `states` each state, `missing` the places from `begin` on of the keys without a row.
  // Returns how many those are.
  int64_t FindPart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end, float* out,
                   uint8_t* found, uint32_t* states, uint32_t* missing) const;
  // States of keys [begin, end). Of rows on a disk begins to read those that are not in memory.
  void LocatePart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end, uint32_t* states) const;
  // The same as the writer, through handles where they are fresh. Unless `probe_unknown` the state of a key whose
  // handle is kNoRow is kEmpty, whatever was entered since.
  void LocateByHandles(const KeyBatch& keys, const RowHandle* handles, bool probe_unknown, int64_t begin, int64_t end,
                       uint32_t* states) const;
  // A whole batch, as the writer. Null handles: probe.
  void Locate(const KeyBatch& keys, const RowHandle* handles, bool probe_unknown, uint32_t* states,
              ParallelFor& pf) const;

  // Makes an Insertion of the keys that are missing by `parts`, and runs it. All keys are admitted with frequency 1;
  // rows start at `values`. `states` are those before, null where no key is counted, and get the new rows if
  // `give_rows`.
  Status InsertMissing(const KeyBatch& keys, const float* values, uint32_t* states, const MissingKeys& parts,
                       bool give_rows, ParallelFor& pf);

  // FindOrInsert on the caller's thread alone; false: not all keys might fit, and the batch has changed nothing.
  bool InsertAsFound(const KeyBatch& keys, float* out, CertainRoom* space);
  // Gives rows to the keys whose states are none. of_update: as SharedInsertion::Enter's. False, and nothing has
  // changed: not all might fit, or two of an update are equal.
  bool InsertWithoutRow(const KeyBatch& keys, const NewRows& start, bool of_update, uint32_t* states, ParallelFor& pf);
  // The row states[i] = values[i], [size, dim], one after another.
  void AssignInOrder(const float* values, const uint32_t* states, int64_t size);

  // The new time of each field that steps, by id; 0 for the others. Keys of those are refused.
  Status NewSteps(const UpdateBatch& batch, std::vector<int64_t>* steps) const;
  void UpdateRows(const UpdateBatch& batch, const uint32_t* states, const std::vector<int64_t>& steps,
                  RowUpdateFn update, ParallelFor& pf);
  void Evict(const std::vector<int64_t>& steps);
  // Takes some rows of a field that have to leave out of the table; says how many.
  int64_t EvictSome(uint32_t id, int64_t step);
  void ScanForVictims();

  // Keys that eviction has removed from a field, once they are wanted.
  struct LeftKeys {
    std::unique_ptr<int64_t[]> memory;
    LeftKeysRing ring;
  };
  FieldMark MarkOf(uint32_t field) const;
  // Memory for what an export takes besides its pieces.
  Status GrantList(int64_t bytes) const;
  // What each field holds, without arrays, and which of `fields` each id is, or -1.
  void StartExport(const std::vector<uint32_t>& fields, std::vector<ContentsOut>* out,
                   std::vector<int64_t>* places) const;

  Status ImportAll(const std::vector<ContentsSource>& sources, ParallelFor& pf);
  Status ImportSome(const std::vector<ContentsSource>& sources, ParallelFor& pf);
  // Enters what the sources give into `state`, under the given id of each field. On error a part of it is there.
  Status Enter(const std::vector<ContentsSource>& sources, const std::vector<uint32_t>& ids, TableState* state,
               RoomLock* room, ParallelFor& pf);
  Status EnterPiece(const ContentsIn& piece, uint32_t id, Repeats repeats, TableState* state, RoomLock* room,
                    ParallelFor& pf);
  // Makes the other ids of these fields the active ones.
  void Exchange(const std::vector<uint32_t>& fields);
  // Takes what is left under the ids of these fields that are not active out of the table.
  void RemoveInactive(const std::vector<uint32_t>& fields);

  // Runs a method's body; memory that ran out in it becomes a Status.
  template <class Body>
  Status Guarded(Body body) const {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted,
                    "Table '" + options_.name +
                        "': no memory for the batch's own bookkeeping; use smaller batches, or "
                        "give the process more memory");
    }
  }

  const TableOptions options_;
  const CpuTableConfig config_;
  const bool admits_all_;  // No field has a filter.
  // By field, under writer_.
  EditCounts edits_;
  std::vector<LeftKeys> left_keys_;
  mutable std::mutex writer_;
  mutable RoomLock room_;
  std::unique_ptr<TableState> state_;  // Never null. Changed in the writing room.
  uint32_t epoch_;                     // Changed in the writing room.
  RowSwap row_swap_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CPU_TABLE_IMPL_H_
