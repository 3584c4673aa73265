// The front of a sparse lookup: which ids each row of the batch has.
//
// What safe_embedding_lookup_sparse does in 30 ops before it gathers: prune ids below 0 and weights of at most 0, give
// each empty row one default id, sort by row (stable), so that what follows sees the ids of row r at
// [row_splits[r], row_splits[r + 1]).
#ifndef TF_BOOSTER_CC_CORE_POOLING_LOOKUP_INPUT_H_
#define TF_BOOSTER_CC_CORE_POOLING_LOOKUP_INPUT_H_

#include <cstdint>

#include "cc/core/base/status.h"

namespace tf_booster {

// How ids are chosen; the same for all lookups of one call.
struct LookupRules {
  bool prune_ids = false;      // Ids below 0 are left out.
  bool prune_weights = false;  // So are ids whose weight is not above 0.
  bool fill_rows = false;      // A row without ids gets `default_id` with weight 1, and is told as empty.
};

// The ids of one lookup. T: int32_t or int64_t. Two forms:
// sparse: `values` [n] with `indices` [n, rank]; the first `leading_dims` columns, numbered within `dense_shape`
// [rank],
//   are the row. Without fill_rows `dense_shape` is not read: column 0 is the row, and must not fall.
// dense: `values` [rows, width]; an entry equal to `ignored` is no id. `indices` is null.
template <class T>
struct LookupInput {
  const T* values = nullptr;
  int64_t n = 0;
  const float* weights = nullptr;  // [n], or null.
  T default_id = 0;

  const int64_t* indices = nullptr;
  int64_t rank = 2;
  const int64_t* dense_shape = nullptr;
  int64_t leading_dims = 1;

  int64_t rows = 0;
  int64_t width = 0;
  T ignored = -1;

  bool dense() const { return indices == nullptr; }
};

// What CountRows found and FillRows needs.
struct LookupCounts {
  int64_t rows = 0;       // Of the batch, so row_splits has rows + 1 entries.
  int64_t ids = 0;        // With those of empty rows; row_splits[rows].
  bool ordered = true;    // The rows of `indices` never fall.
  bool as_given = false;  // The ids are `values`, in their order and number.
};

// The number of rows that a lookup has. InvalidArgument: a dense_shape that is negative or has too many rows, or
// (without fill_rows) a row below 0.
template <class T>
Status RowsOf(const LookupInput<T>& input, const LookupRules& rules, int64_t* rows);

// Sets row_splits [rows + 1] and, with fill_rows, row_is_empty [rows]. InvalidArgument: a row outside the batch, rows
// that fall where they must not, more than 2^31 - 1 ids.
template <class T>
Status CountRows(const LookupInput<T>& input, const LookupRules& rules, int64_t rows, int32_t* row_splits,
                 bool* row_is_empty, LookupCounts* counts);

// The ids [counts.ids] in the order of rows, with their weights (null without).
template <class T>
void FillRows(const LookupInput<T>& input, const LookupRules& rules, const LookupCounts& counts,
              const int32_t* row_splits, T* ids, float* weights);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_LOOKUP_INPUT_H_
