// Which rows of a field leave after a step. One heap entry of 16 bytes a row, ordered by (score, hash); the score is
// the last-use step, or the frequency for LFU. Both only grow, so an entry may be out of date without harm: it is
// brought up to date when it comes to the top. A step that evicts nothing costs nothing, and a hit never touches the
// heap. The key of an entry is what has its hash, and the key's row is what the index says.
//
// The order is total (the hash of a key among those of field 0 is unique within a field), so the victims depend on the
// batches alone: not on threads, nor on the number that a field has in a fused table.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_EVICTION_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_EVICTION_H_

#include <cstdint>
#include <vector>

#include "cc/core/hash_table/row_store.h"
#include "cc/core/hash_table/striped_index.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

class EvictionQueue {
 public:
  // `field`: the id by which the index knows it.
  EvictionQueue(const EvictionOptions& options, uint32_t field) : options_(options), field_(field) {}

  bool enabled() const { return options_.max_idle_steps > 0 || options_.max_rows > 0; }

  // Bytes that Reserve(more) will take.
  int64_t GrowthBytes(int64_t more) const;
  // Room for `more` Pushes; may throw std::bad_alloc and changes nothing then. `rows`: rows of the field, to drop
  // entries of erased rows when they outnumber the others.
  void Reserve(int64_t more, int64_t rows, const StripedIndex& index, const RowStore& store);
  // A key that was just inserted with these counts.
  void Push(int64_t key, const RowCounts& counts);

  // Whether a row has to leave, and whose: the caller removes the key before the next call. `rows`: rows of the field
  // now.
  bool PopVictim(int64_t rows, int64_t step, const StripedIndex& index, const RowStore& store, int64_t* key);

  int64_t bytes() const { return static_cast<int64_t>(heap_.capacity() * sizeof(Entry)); }
  void Clear() { std::vector<Entry>().swap(heap_); }

 private:
  struct Entry {
    int64_t score;
    uint64_t hash;  // Of the key in field 0.
  };
  // For std::push_heap, which keeps the greatest on top: the first to leave is the greatest.
  static bool LeavesLater(const Entry& a, const Entry& b) {
    return a.score != b.score ? a.score > b.score : a.hash > b.hash;
  }

  int64_t Score(const RowCounts& counts) const {
    return options_.order == EvictionOrder::kLfu ? counts.frequency : counts.last_step;
  }
  bool MustLeave(int64_t score, int64_t rows, int64_t step) const;
  int64_t CapacityFor(int64_t more) const;
  // The row of an entry's key, or 0 where the key was erased.
  uint32_t RowOf(const Entry& entry, const StripedIndex& index) const;
  void DropStale(const StripedIndex& index, const RowStore& store);

  EvictionOptions options_;
  uint32_t field_;
  std::vector<Entry> heap_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_EVICTION_H_
