// How new keys get into a table on several threads, once there is room for them whatever they are (CertainRoom):
//
//   Sort      after a part's lookup: its new keys, by stripe
//   Run       stripe by stripe: enters the keys, without rows, and so finds those that are equal;
//             part by part: numbers rows in batch order, fills them and gives them to the keys' entries
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
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

class SharedInsertion {
 public:
  // New rows of `keys` start as those of `values`, [keys.size, dim], and are seen once. What is borrowed must outlive
  // this.
  SharedInsertion(const TableOptions& options, TableState* state, RoomLock* room, const KeyBatch& keys,
                  const float* values, const MissingKeys& missing);

  // Part `p` of `missing` is complete. Any thread.
  void Sort(int64_t p);

  // When all parts are sorted.
  CertainRoom::Counts CountStripes() const;

  // After it, if there is room for so many keys.
  void Run(MemoryProbe* memory, ParallelFor& pf);

 private:
  struct Record {
    union {
      int64_t key;
      IndexEntry* entry;  // From EnterStripe on; null for a key that came before in the batch.
    };
    uint32_t field;  // Its id.
    uint32_t place;  // Among the part's missing keys.
  };
  using Stripes = std::array<uint32_t, kStripes + 1>;

  int64_t num_parts() const { return missing_.num_parts(); }
  Record* RecordsOf(int64_t part) const { return records_.get() + part * MissingKeys::kPart; }
  // Keys of stripe `s` that part `p` was the first to have.
  uint32_t& Firsts(int s, int64_t p) { return firsts_[s * stride_ + p]; }
  void EnterStripe(int s);
  template <int64_t kDim>
  void FillPart(int64_t p, const uint32_t* numbers);

  const TableOptions& options_;
  TableState* const state_;
  RoomLock* const room_;
  const KeyBatch keys_;
  const float* const values_;
  const MissingKeys& missing_;
  const std::unique_ptr<uint32_t[]> numbers_;  // Of new rows, in batch order.
  const std::unique_ptr<Record[]> records_;    // Those of part p from p * kPart on, by stripe and then by place.
  std::vector<Stripes> begins_;                // Of each part, where its stripes' records begin.
  const int64_t stride_;                       // Of firsts_: whole lines, for a stripe's are counted by one thread.
  std::vector<uint32_t> firsts_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_SHARED_INSERTION_H_
