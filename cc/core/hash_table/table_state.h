// All that a table holds, in one object: Import builds a new one aside and swaps.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_STATE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_STATE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "cc/core/hash_table/eviction.h"
#include "cc/core/hash_table/initializer.h"
#include "cc/core/hash_table/row_store.h"
#include "cc/core/hash_table/striped_index.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

struct FieldState {
  FieldState(const FieldOptions& options, uint32_t field, uint64_t seed)
      : seed(seed),
        initializer(MakeRowInitializer(options.initializer, options.name, seed)),
        queue(options.eviction, field) {}

  const uint64_t seed;
  const RowInitializer initializer;
  std::atomic<int64_t> rows{0};  // Admitted.
  EvictionQueue queue;
};

struct TableState {
  // `seeds`: one a field, or empty for those of the options.
  TableState(const TableOptions& options, const std::vector<uint64_t>& seeds, Allocator* allocator, int bucket_entries)
      : index(allocator, bucket_entries),
        rows(allocator, RowLayout(options.dim, static_cast<int64_t>(options.slot_initial_values.size()))) {
    for (uint32_t f = 0; f < options.fields.size(); ++f) {
      fields.emplace_back(options.fields[f], f, seeds.empty() ? options.fields[f].seed : seeds[f]);
    }
  }

  int64_t num_rows() const {
    int64_t sum = 0;
    for (const FieldState& field : fields) sum += field.rows;
    return sum;
  }

  // Takes the row of a live entry, or its pending count, out of the table. The caller is alone in the stripe.
  // Returns the row, which is not free yet, or 0.
  uint32_t Remove(uint64_t hash, IndexEntry* entry) {
    const uint32_t state = entry->state;
    index.Erase(hash, entry);
    if (IsPending(state)) {
      --pending;
      return 0;
    }
    --fields[entry->field].rows;
    return state;
  }

  StripedIndex index;
  RowStore rows;
  std::deque<FieldState> fields;  // Not a vector: atomics do not move.
  std::atomic<int64_t> pending{0};
  uint32_t readable_end = kFirstRow;  // Rows below were published at least once; RowStore's end runs ahead of it.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_STATE_H_
