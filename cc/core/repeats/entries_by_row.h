// The entries of a sparse tensor row by row, whatever order they come in.
#ifndef TF_BOOSTER_CC_CORE_REPEATS_ENTRIES_BY_ROW_H_
#define TF_BOOSTER_CC_CORE_REPEATS_ENTRIES_BY_ROW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/status.h"

namespace tf_booster {

// Row r has the entries entry(begin(r)) to entry(end(r) - 1), in the order in which they come.
class EntriesByRow {
 public:
  // indices: [size, rank], of which the first column is the row. InvalidArgument for a row outside of [0, rows).
  static Status Of(const int64_t* indices, int64_t size, int64_t rank, int64_t rows, EntriesByRow* out) {
    out->ends_.assign(rows + 1, 0);
    out->order_.clear();
    bool in_order = true;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t row = indices[i * rank];
      if (row < 0 || row >= rows) {
        return Status(StatusCode::kInvalidArgument, "entry " + std::to_string(i) + " is in row " + std::to_string(row) +
                                                        ", but there are " + std::to_string(rows) + " rows");
      }
      in_order = in_order && (i == 0 || indices[(i - 1) * rank] <= row);
      ++out->ends_[row + 1];
    }
    for (int64_t row = 0; row < rows; ++row) out->ends_[row + 1] += out->ends_[row];
    if (in_order) return Status();
    out->order_.resize(size);
    std::vector<int64_t> next(out->ends_.begin(), out->ends_.end() - 1);
    for (int64_t i = 0; i < size; ++i) out->order_[next[indices[i * rank]]++] = i;
    return Status();
  }

  int64_t begin(int64_t row) const { return ends_[row]; }
  int64_t end(int64_t row) const { return ends_[row + 1]; }
  int64_t entry(int64_t place) const { return order_.empty() ? place : order_[place]; }

 private:
  std::vector<int64_t> ends_;   // [rows + 1].
  std::vector<int64_t> order_;  // Empty where entries come row by row.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_REPEATS_ENTRIES_BY_ROW_H_
