// Which rows of a field leave after a step: those of the lowest (score, hash); the score is the last-use step, or the
// frequency for LFU. Both only grow. So it is enough to know the rows that were lowest some time ago: a queue holds all
// rows whose rank was below a bound when the index was last scanned, or when they came, and whatever is not in it is
// above that bound still. An entry that is out of date is put right when it comes to the top, or leaves the queue. Only
// a queue that is empty, while rows above its bound have to leave, needs the index to be scanned again.
//
// A queue has room for a sixteenth of the rows, a byte a row; with one entry a row it took 18. A step that evicts
// nothing costs nothing, and a hit never touches the queue. The key of an entry is what has its hash, and the key's row
// is what the index says.
//
// The order is total (the hash of a key among those of field 0 is unique within a field), so the victims depend on the
// batches alone: not on threads, nor on the number that a field has in a fused table, nor on when scans were made.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_EVICTION_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_EVICTION_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "cc/core/hash_table/row_store.h"
#include "cc/core/hash_table/striped_index.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

class EvictionQueue {
 public:
  // `field`: the id by which the index knows it.
  EvictionQueue(const EvictionOptions& options, uint32_t field) : options_(options), field_(field) {}

  bool enabled() const { return options_.enabled(); }

  // Bytes that Reserve will take.
  int64_t GrowthBytes(int64_t rows, int64_t share) const;
  // Room for what a scan of a field of so many rows keeps; may throw std::bad_alloc and changes nothing then. `share`:
  // rows of the table divided by its fields. A field that is small beside the others has room for all of its rows, for
  // each scan is of the whole index.
  void Reserve(int64_t rows, int64_t share);
  // A key that was just inserted with these counts. Needs no memory.
  void Push(int64_t key, const RowCounts& counts) {
    if (enabled()) Keep({Score(counts), HashKey(key, 0)});
  }

  // Whether PopVictim cannot tell before all rows of the field were offered anew: StartScan, Offer each, EndScan.
  bool NeedsScan(int64_t rows, int64_t step) const {
    return heap_.empty() && rows > 0 && MustLeave(bound_.score, rows, step);
  }
  void StartScan();
  void Offer(int64_t key, const RowCounts& counts);
  void EndScan();

  // Whether a row has to leave, and whose: the caller removes the key before the next call. `rows`: rows of the field
  // now. False as well where a scan is needed.
  bool PopVictim(int64_t rows, int64_t step, const StripedIndex& index, const RowStore& store, int64_t* key);

  int64_t bytes() const { return static_cast<int64_t>(heap_.capacity() * sizeof(Rank)); }
  // Of a field without rows.
  void Clear();

 private:
  struct Rank {
    int64_t score;
    uint64_t hash;  // Of the key in field 0.
    bool operator<(const Rank& other) const { return score != other.score ? score < other.score : hash < other.hash; }
  };
  // Of std::push_heap, which keeps the greatest on top: the first to leave is the greatest.
  static bool LeavesLater(const Rank& a, const Rank& b) { return b < a; }
  static constexpr Rank kAboveAll = {std::numeric_limits<int64_t>::max(), ~uint64_t{0}};

  int64_t Score(const RowCounts& counts) const {
    return options_.order == EvictionOrder::kLfu ? counts.frequency : counts.last_step;
  }
  bool MustLeave(int64_t score, int64_t rows, int64_t step) const;
  static size_t RoomFor(int64_t rows, int64_t share);
  // Puts a rank below the bound into the heap. One that is full is halved first, by a lower bound.
  void Keep(const Rank& rank);
  void Halve();
  // The row of a key by its hash, or 0 where the key was erased.
  uint32_t RowOf(int64_t key, const StripedIndex& index) const;

  EvictionOptions options_;
  uint32_t field_;
  std::vector<Rank> heap_;  // Its capacity is Reserve's.
  Rank bound_ = kAboveAll;  // Of all rows of the field those below are in the heap.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_EVICTION_H_
