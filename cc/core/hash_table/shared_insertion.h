// How new keys get into a table on several threads, or without the lookup that left their buckets in a cache, once
// there is room for them whatever they are (CertainRoom):
//
//   Sort      after a part's lookup: its new keys, by stripe
//   Enter     stripe by stripe: enters the keys, without rows, and so finds those that are equal
//   Complete  part by part: numbers rows in batch order, fills them and gives them to the keys' entries
//
// So the index itself tells equal keys apart, where Insertion has a set and two more passes over the new keys. Rows and
// index are those that it makes.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_SHARED_INSERTION_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_SHARED_INSERTION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/base/room_lock.h"
#include "cc/core/hash_table/certain_room.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/missing_keys.h"
#include "cc/core/hash_table/new_row.h"
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

class SharedInsertion {
 public:
  // What is borrowed must outlive this.
  SharedInsertion(const TableOptions& options, TableState* state, RoomLock* room, const KeyBatch& keys,
                  const NewRows& start, const MissingKeys& missing);

  // Part `p` of `missing` is complete. Any thread.
  void Sort(int64_t p);

  // When all parts are sorted.
  CertainRoom::Counts CountStripes() const;

  // After it, if there is room for so many keys. of_update: they were looked up some time ago, and may have rows by
  // now; and they are distinct. False where two of those without rows are not; none is in then.
  bool Enter(bool of_update, ParallelFor& pf);

  // After it. `states`, if not null, gets the row of each missing key, at its place in the batch.
  void Complete(MemoryProbe* memory, uint32_t* states, ParallelFor& pf);

 private:
  struct Record {
    union {
      int64_t key;
      uintptr_t entry;  // From EnterStripe on, with kWasThere or kWasTombstone in the lowest bits.
    };
    uint32_t field;  // Its id.
    uint32_t place;  // Among the part's missing keys.
  };
  static constexpr uintptr_t kWasThere = 1;  // The key's entry: it came before in the batch, or into the table.
  static constexpr uintptr_t kWasTombstone = 2;
  static IndexEntry* EntryOf(const Record& record) {
    return reinterpret_cast<IndexEntry*>(record.entry & ~(kWasThere | kWasTombstone));
  }
  using Stripes = std::array<uint32_t, kStripes + 1>;

  int64_t num_parts() const { return missing_.num_parts(); }
  Record* RecordsOf(int64_t part) const { return records_.get() + part * MissingKeys::kPart; }
  // Keys of stripe `s` that part `p` was the first to have.
  uint32_t& Firsts(int s, int64_t p) { return firsts_[s * stride_ + p]; }
  // Whether a key without a row came twice.
  bool EnterStripe(int s, bool of_update);
  void Undo();
  template <int64_t kDim>
  void FillPart(int64_t p, const uint32_t* numbers);
  void GiveRows(int64_t p, uint32_t* states) const;

  const TableOptions& options_;
  TableState* const state_;
  RoomLock* const room_;
  const KeyBatch keys_;
  const NewRows start_;
  const MissingKeys& missing_;
  const std::unique_ptr<uint32_t[]> numbers_;  // Of new rows, in batch order.
  const std::unique_ptr<Record[]> records_;    // Those of part p from p * kPart on, by stripe and then by place.
  std::vector<Stripes> begins_;                // Of each part, where its stripes' records begin.
  const int64_t stride_;                       // Of firsts_: whole lines, for a stripe's are counted by one thread.
  std::vector<uint32_t> firsts_;
  std::vector<int64_t> rows_before_;  // New ones in the parts before each; like all else here before a key is entered.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_SHARED_INSERTION_H_
