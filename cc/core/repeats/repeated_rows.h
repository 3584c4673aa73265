// Which rows of a batch are the same in all of some features: one user's, where a model ranks candidates for users.
//
// Rows are hashed feature by feature, so that each is read from end to end; a hash table of row numbers finds the
// candidate, and all features of the two rows are compared. The hash decides nothing by itself: two rows are one only
// if every byte of them is. So 0.0 and -0.0 are two values, and a NaN equals itself; what is computed of equal bytes is
// equal.
#ifndef TF_BOOSTER_CC_CORE_REPEATS_REPEATED_ROWS_H_
#define TF_BOOSTER_CC_CORE_REPEATS_REPEATED_ROWS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/repeats/entries_by_row.h"

namespace tf_booster {

// One feature, or a part of one, borrowed: items of a fixed size, or strings. Row r has the items r * items_a_row to
// (r + 1) * items_a_row; with `entries` those that it lists.
struct RowFeature {
  const char* bytes = nullptr;
  int64_t item_bytes = 0;                     // Of an item.
  int64_t item_stride = 0;                    // From one item to the next; at least item_bytes.
  const std::string_view* strings = nullptr;  // In place of bytes.
  int64_t items_a_row = 0;
  const EntriesByRow* entries = nullptr;
};

struct RepeatedRows {
  std::vector<int32_t> first_rows;  // The first row of each kind, ascending.
  std::vector<int32_t> row_of;      // For each row the place in first_rows of the one that is equal to it.
};

// rows < 2^31. Takes one look at each row and, for rows that repeat, one comparison.
RepeatedRows FindRepeatedRows(const std::vector<RowFeature>& features, int64_t rows, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_REPEATS_REPEATED_ROWS_H_
