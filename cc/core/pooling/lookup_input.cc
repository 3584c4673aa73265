#include "cc/core/pooling/lookup_input.h"

#include <algorithm>
#include <limits>
#include <string>

#include "cc/core/unique/scratch_array.h"

namespace tf_booster {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

template <class T>
bool Kept(const LookupInput<T>& input, const LookupRules& rules, int64_t i) {
  if (input.dense() && input.values[i] == input.ignored) return false;
  if (rules.prune_ids && input.values[i] < 0) return false;
  return !(rules.prune_weights && input.weights != nullptr && !(input.weights[i] > 0.0f));
}

template <class T>
int64_t RowOf(const LookupInput<T>& input, int64_t i) {
  const int64_t* coordinates = input.indices + i * input.rank;
  int64_t row = coordinates[0];
  for (int64_t d = 1; d < input.leading_dims; ++d) row = row * input.dense_shape[d] + coordinates[d];
  return row;
}

// Calls visit(i, row) for each id that stays; false from it ends the walk.
template <class T, class Visit>
void ForEachKept(const LookupInput<T>& input, const LookupRules& rules, Visit visit) {
  if (input.dense()) {
    for (int64_t row = 0, i = 0; row < input.rows; ++row) {
      for (int64_t end = i + input.width; i < end; ++i) {
        if (Kept(input, rules, i) && !visit(i, row)) return;
      }
    }
    return;
  }
  for (int64_t i = 0; i < input.n; ++i) {
    if (Kept(input, rules, i) && !visit(i, RowOf(input, i))) return;
  }
}

// Whether every entry of a dense input is an id that stays: the usual case, asked without a branch for each.
template <class T>
bool KeepsAll(const LookupInput<T>& input, const LookupRules& rules) {
  const T least = rules.prune_ids ? T(0) : std::numeric_limits<T>::min();
  int none = 0;
  for (int64_t i = 0; i < input.n; ++i) none |= (input.values[i] == input.ignored) | (input.values[i] < least);
  return none == 0;
}

Status Invalid(const std::string& message) { return Status(StatusCode::kInvalidArgument, message); }

Status TooMany(int64_t ids) {
  return Invalid("a lookup has " + std::to_string(ids) + " ids, but at most 2147483647 can be pooled; split the batch");
}

}  // namespace

template <class T>
Status RowsOf(const LookupInput<T>& input, const LookupRules& rules, int64_t* rows) {
  if (input.dense()) {
    *rows = input.rows;
  } else if (!rules.fill_rows) {
    *rows = input.n > 0 ? input.indices[(input.n - 1) * input.rank] + 1 : 0;
    if (*rows < 0 || (input.n > 0 && *rows == 0)) return Invalid("segment ids must be >= 0");
  } else {
    *rows = 1;
    for (int64_t d = 0; d < input.leading_dims; ++d) {
      const int64_t size = input.dense_shape[d];
      if (size < 0)
        return Invalid("dense_shape[" + std::to_string(d) + "] is " + std::to_string(size) + ", wanted >= 0");
      if (size > 0 && *rows > kMost / size) {
        return Invalid("the leading dimensions of dense_shape make more than 2147483647 rows; split the batch");
      }
      *rows *= size;
    }
  }
  if (*rows > kMost)
    return Invalid("a lookup has " + std::to_string(*rows) + " rows, but at most 2147483647 are possible");
  return Status();
}

template <class T>
Status CountRows(const LookupInput<T>& input, const LookupRules& rules, int64_t rows, int32_t* row_splits,
                 bool* row_is_empty, LookupCounts* counts) {
  if (input.n > kMost) return TooMany(input.n);
  if (input.dense() && input.weights == nullptr && input.width > 0 && KeepsAll(input, rules)) {
    for (int64_t row = 0; row <= rows; ++row) row_splits[row] = static_cast<int32_t>(row * input.width);
    if (rules.fill_rows) std::fill(row_is_empty, row_is_empty + rows, false);
    *counts = {rows, input.n, true, true};
    return Status();
  }
  std::fill(row_splits, row_splits + rows + 1, 0);
  int32_t* count_of = row_splits + 1;
  int64_t last_row = 0, bad = -1, bad_row = 0, kept = 0;
  bool ordered = true;
  ForEachKept(input, rules, [&](int64_t i, int64_t row) {
    ordered &= row >= last_row;
    last_row = row;
    if (row < 0 || row >= rows || (!ordered && !rules.fill_rows)) {
      bad = i;
      bad_row = row;
      return false;
    }
    ++count_of[row];
    ++kept;
    return true;
  });
  if (bad >= 0) {
    // The last row is the number of rows here: one beyond it, or below 0, comes before or after one that it must not.
    if (!rules.fill_rows) return Invalid("segment ids are not increasing");
    return Invalid("indices(" + std::to_string(bad) + ", 0) is invalid: row " + std::to_string(bad_row) +
                   " of a batch of " + std::to_string(rows) + " rows");
  }
  int64_t total = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (rules.fill_rows) {
      row_is_empty[row] = count_of[row] == 0;
      total += std::max(count_of[row], 1);
    } else {
      total += count_of[row];
    }
    if (total > kMost) return TooMany(total);
    count_of[row] = static_cast<int32_t>(total);
  }
  // With weights, too, ids would be as given; but then both are copied.
  const bool as_given = ordered && kept == input.n && total == input.n && input.weights == nullptr;
  *counts = {rows, total, ordered, as_given};
  return Status();
}

template <class T>
void FillRows(const LookupInput<T>& input, const LookupRules& rules, const LookupCounts& counts,
              const int32_t* row_splits, T* ids, float* weights) {
  if (counts.as_given) {
    std::copy(input.values, input.values + input.n, ids);
    return;
  }
  const auto put = [&](int64_t from, int64_t to) {
    ids[to] = input.values[from];
    if (weights != nullptr) weights[to] = input.weights[from];
  };
  const auto put_default = [&](int64_t to) {
    ids[to] = input.default_id;
    if (weights != nullptr) weights[to] = 1.0f;
  };
  if (counts.ordered) {
    // Rows before that of the next id are empty: each takes one place.
    int64_t place = 0, next_row = 0;
    ForEachKept(input, rules, [&](int64_t i, int64_t row) {
      if (rules.fill_rows) {
        for (; next_row < row; ++next_row) put_default(place++);
        next_row = row + 1;
      }
      put(i, place++);
      return true;
    });
    while (place < counts.ids) put_default(place++);
    return;
  }
  ScratchArray<int32_t> cursors(counts.rows, ScratchContents::kUndefined);
  std::copy(row_splits, row_splits + counts.rows, cursors.data());
  ForEachKept(input, rules, [&](int64_t i, int64_t row) {
    put(i, cursors[row]++);
    return true;
  });
  for (int64_t row = 0; row < counts.rows; ++row) {
    if (cursors[row] == row_splits[row]) put_default(row_splits[row]);
  }
}

#define TFB_LOOKUP_INPUT(T)                                                                                         \
  template Status RowsOf<T>(const LookupInput<T>&, const LookupRules&, int64_t*);                                   \
  template Status CountRows<T>(const LookupInput<T>&, const LookupRules&, int64_t, int32_t*, bool*, LookupCounts*); \
  template void FillRows<T>(const LookupInput<T>&, const LookupRules&, const LookupCounts&, const int32_t*, T*, float*)
TFB_LOOKUP_INPUT(int32_t);
TFB_LOOKUP_INPUT(int64_t);
#undef TFB_LOOKUP_INPUT

}  // namespace tf_booster
