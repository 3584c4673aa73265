// How new keys get into a table on one thread: a part of the batch is looked up, and its new keys are entered while
// their buckets and values are still in the nearest caches. There is no list of the batch's new keys, no set to find
// duplicates in and no second miss for a key's bucket.
//
// It does only what cannot fail: where limits, memory or the index might not do, everything is taken out again, and
// Insertion does the batch, with its errors. Rows and index are those that it makes.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_EARLY_INSERTION_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_EARLY_INSERTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/base/room_lock.h"
#include "cc/core/hash_table/certain_room.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

class EarlyInsertion {
 public:
  // New rows of `keys` start as those of `values`, [keys.size, dim], and are seen once. What is borrowed must outlive
  // this.
  EarlyInsertion(const TableOptions& options, TableState* state, RoomLock* room, const KeyBatch& keys,
                 const float* values, CertainRoom* space);

  // Enters the `count` keys at `places` + begin of the batch, which had no row when the part was looked up. They come
  // in batch order, equal ones among them. False: they might not fit, and none is in.
  bool Add(int64_t begin, const uint32_t* places, int64_t count);

  // After the last Add.
  void Finish(MemoryProbe* memory);

  // Takes all keys out again, as though they had never been there. True: readers may have seen their rows.
  bool Undo();

  // Keys of a part.
  static int64_t PartSize(int64_t dim);

 private:
  template <int64_t kDim>
  void AddSome(int64_t begin, const uint32_t* places, int64_t count);

  const TableOptions& options_;
  TableState* const state_;
  RoomLock* const room_;
  const KeyBatch keys_;
  const float* const values_;
  CertainRoom* const space_;
  // Of each new key in batch order its entry, and whether a tombstone was there, in the lowest bit.
  std::unique_ptr<uintptr_t[]> entered_;
  int64_t num_entered_ = 0;
  std::vector<int64_t> new_rows_;  // Of each field, by id.
  const uint32_t readable_before_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_EARLY_INSERTION_H_
