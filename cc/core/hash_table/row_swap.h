// Of a table with rows on a disk: those that are used swap places with idle ones in memory, as pages do under a clock's
// hand. A page of the disk that is in memory for the sake of one row holds a dozen others that nobody wants.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_SWAP_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_SWAP_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/room_lock.h"
#include "cc/core/hash_table/hash_table.h"
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

// The table's one writer calls.
class RowSwap {
 public:
  explicit RowSwap(int period) : period_(period) {}

  // After each update: its keys, and their states, which are out of date afterwards. Every `period` updates rows on the
  // disk that the last of them used move to memory, as long as there are some there that none of them did. *epoch
  // changes in the writing room, for handles lead to other rows then. May throw std::bad_alloc; the table is whole all
  // the same.
  void AfterUpdate(const KeyBatch& keys, const uint32_t* states, TableState* state, RoomLock* room, uint32_t* epoch);

 private:
  struct UsedKey {
    int64_t key;
    uint32_t id;
  };

  void Note(const KeyBatch& keys, const uint32_t* states, const TableState& state);
  // Entries of rows on the disk that were noted, each once.
  std::vector<IndexEntry*> TakeUsed(TableState* state);
  // Entries of rows in memory that are idle, `wanted` of them if they are soon found.
  std::vector<IndexEntry*> FindIdle(size_t wanted, TableState* state);

  const int period_;
  int updates_ = 0;
  std::vector<UsedKey> used_;  // By the updates that are noted.
  int stripe_ = 0;             // Where the hand is: at this entry of the stripe.
  int64_t entry_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_SWAP_H_
