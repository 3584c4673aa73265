// All that a table holds, in one object: Import of all fields builds a new one aside and swaps.
//
// Each field has two ids and is known to index and rows by the active one. Import of some fields enters their keys
// under the other id, where nobody looks, and then makes it the active one: readers see all of a field or nothing,
// whatever fails before leaves no trace, and other fields are not touched.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_STATE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_STATE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "cc/core/hash_table/eviction.h"
#include "cc/core/hash_table/hash_table.h"
#include "cc/core/hash_table/initializer.h"
#include "cc/core/hash_table/row_store.h"
#include "cc/core/hash_table/striped_index.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

struct FieldState {
  FieldState(const FieldOptions& options, uint32_t id) : options(&options), queue(options.eviction, id) {
    Start(options.seed, 0, 0);
  }

  // Only while nobody looks here.
  void Start(uint64_t new_seed, int64_t new_step, int64_t evicted_so_far) {
    seed = new_seed;
    initializer = MakeRowInitializer(options->initializer, options->name, seed);
    step = new_step;
    evicted = evicted_so_far;
    queue.Clear();
  }

  const FieldOptions* const options;
  uint64_t seed;
  RowInitializer initializer;
  std::atomic<int64_t> rows{0};  // Admitted.
  std::atomic<int64_t> pending{0};
  std::atomic<int64_t> step{0};  // The clock of last-use steps.
  std::atomic<int64_t> evicted{0};
  EvictionQueue queue;
};

struct TableState {
  // `options` must outlive the state.
  TableState(const TableOptions& options, Allocator* allocator, int bucket_entries, int max_load_percent, RowDisk disk)
      : num_fields(static_cast<uint32_t>(options.fields.size())),
        index(allocator, bucket_entries, max_load_percent),
        rows(allocator, RowLayout(options.dim, static_cast<int64_t>(options.slot_initial_values.size())),
             std::move(disk)) {
    // One field is always replaced with the whole state, and needs no second id.
    for (uint32_t id = 0; id < (num_fields == 1 ? 1 : 2 * num_fields); ++id) {
      fields.emplace_back(options.fields[FieldOf(id)], id);
    }
    for (uint32_t f = 0; f < num_fields; ++f) active.push_back(f);
  }

  // The id by which index and rows know key i of a batch.
  uint32_t IdOf(const KeyBatch& keys, int64_t i) const {
    return active[keys.fields == nullptr ? keys.field : keys.fields[i]];
  }
  uint32_t FieldOf(uint32_t id) const { return id < num_fields ? id : id - num_fields; }
  uint32_t OtherId(uint32_t id) const { return id < num_fields ? id + num_fields : id - num_fields; }

  int64_t num_rows() const {
    int64_t sum = 0;
    for (const FieldState& field : fields) sum += field.rows;
    return sum;
  }
  int64_t num_pending() const {
    int64_t sum = 0;
    for (const FieldState& field : fields) sum += field.pending;
    return sum;
  }

  // Takes the row of a live entry, or its pending count, out of the table. The caller is alone in the stripe.
  // Returns the row, which is not free yet, or 0.
  uint32_t Remove(uint64_t hash, IndexEntry* entry) {
    const uint32_t state = entry->state, id = entry->field;
    index.Erase(hash, entry);
    FieldState& field = fields[id];
    if (IsPending(state)) {
      --field.pending;
      return 0;
    }
    --field.rows;
    return state;
  }

  const uint32_t num_fields;
  StripedIndex index;
  RowStore rows;
  std::deque<FieldState> fields;      // By id. Not a vector: atomics do not move.
  std::vector<uint32_t> active;       // Id of each field. Changed in the writing room.
  uint32_t readable_end = kFirstRow;  // Rows below were published at least once; RowStore's end runs ahead of it.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_STATE_H_
