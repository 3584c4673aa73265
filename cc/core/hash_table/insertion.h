// How a batch's new keys get into a table, whatever they bring with them, in three steps, of which only the first can
// fail and only the last is seen:
//
//   Prepare   deduplicates, checks limits and memory, takes all memory that is needed, takes row numbers
//   FillRows  writes initial values and metas of rows that nobody can reach yet
//   Publish   enters the keys, stripe by stripe, in the writing room
//
// Rows are numbered in batch order and each stripe is entered by one thread in batch order, so the table that results
// does not depend on the number of threads. Only the table's one writer makes an Insertion.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_INSERTION_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_INSERTION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/base/room_lock.h"
#include "cc/core/base/status.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

// An occurrence of a key that has no row.
struct NewKey {
  NewKey() {}  // Whatever was there: a vector of these is not cleared before it is filled.
  NewKey(int64_t key, int64_t position, int64_t frequency, int64_t last_step, uint32_t field, uint32_t before,
         uint32_t state)
      : key(key),
        position(position),
        frequency(frequency),
        last_step(last_step),
        field(field),
        before(before),
        state(state) {}

  int64_t key;
  int64_t position;   // In the batch.
  int64_t frequency;  // For the meta of a new row.
  int64_t last_step;
  uint32_t field;   // Its id.
  uint32_t before;  // State in the index: kEmpty or pending.
  uint32_t state;   // State to come: kEmpty for a row yet to be taken, or pending.
};

// What new rows start with. Null `values`: initial values; else row `position` of [n, dim]. Null `slots`, or a null
// entry: the slot's initial value; else the same of slot s.
struct RowSource {
  const float* values = nullptr;
  const std::vector<const float*>* slots = nullptr;
};

// Asks for the pages that a next batch will begin, if it brings about as many rows beyond the last one as this one did.
void AskForNextPages(TableState* state, int64_t rows_beyond, MemoryProbe* memory);

// What becomes of a key that the batch has twice. kRefusedInTable: or the table has it, which otherwise is known to be
// false.
enum class Repeats { kAllowed, kRefused, kRefusedInTable };

class Insertion {
 public:
  // `keys` in batch order. What is borrowed must outlive this.
  Insertion(const TableOptions& options, TableState* state, MemoryProbe* memory, std::vector<NewKey> keys);
  ~Insertion();
  Insertion(const Insertion&) = delete;
  Insertion& operator=(const Insertion&) = delete;

  // ResourceExhausted, or a std::bad_alloc, where the rows do not fit; InvalidArgument where a key is refused. The
  // table is as it was in all these cases.
  Status Prepare(Repeats repeats, ParallelFor& pf);

  // Writes embedding and slots of the new rows.
  void FillRows(const RowSource& source, ParallelFor& pf);

  // Enters the keys. Cannot fail.
  void Publish(RoomLock* room, ParallelFor& pf);

  // The row of keys()[i], 0 for a pending one. After Prepare.
  const std::vector<NewKey>& keys() const { return keys_; }
  uint32_t RowOf(const NewKey& key) const {
    const uint32_t state = states_[originals_[&key - keys_.data()]];
    return IsRow(state) ? state : 0;
  }

 private:
  // A key as its stripe needs it. Copies, one behind the other, for a stripe's keys are one in sixteen of keys_: when
  // each was looked up there, to be fetched and to be entered, entering 13,107 keys took 595 us in place of 504 (Zen
  // 4).
  struct StripeKey {
    uint64_t hash;
    int64_t key;
    uint32_t field;
    uint32_t before;
    uint32_t place;  // In keys_.
  };

  void PartitionByStripe(ParallelFor& pf);
  // Of duplicates the place in keys_ of any, or -1.
  int64_t Deduplicate(ParallelFor& pf);
  // The place in keys_ of any that has an entry, or -1.
  int64_t AnyInTable(ParallelFor& pf) const;
  Status CheckLimits();
  Status TakeMemory(ParallelFor& pf);
  Status Exhausted(int64_t wanted, int64_t left) const;
  Status DiskIsFull() const;
  // Rows of the new keys [begin, end); kDim: DispatchDim's.
  template <int64_t kDim>
  void FillSomeRows(const RowSource& source, int64_t begin, int64_t end);
  void PublishStripe(int stripe, RoomLock* room);

  bool IsFirst(uint32_t i) const { return originals_[i] == i; }

  const TableOptions& options_;
  TableState* const state_;
  MemoryProbe* const memory_;
  std::vector<NewKey> keys_;
  // Of each key; apart from the keys, for passes that read nothing else. Those of a batch of 10^5 keys with a tenth new
  // ones fit into the caches that are nearest.
  std::unique_ptr<uint32_t[]> originals_;  // The place in keys_ of its first occurrence.
  std::unique_ptr<uint32_t[]> states_;     // NewKey::state, but for a row its number.
  // Sorted by stripe and then by place; Deduplicate leaves first occurrences only.
  std::unique_ptr<StripeKey[]> by_stripe_;
  std::array<uint32_t, kStripes + 1> stripe_begin_{};
  std::array<uint32_t, kStripes> stripe_end_{};
  std::array<int64_t, kStripes> new_entries_{};
  std::vector<int64_t> new_rows_;  // Of each field, by id.
  int64_t num_new_rows_ = 0;
  int64_t sightings_ = 0, max_step_ = 0;  // Of all keys.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_INSERTION_H_
