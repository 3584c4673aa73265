// Crosses of features: each combination of what a row has of several features, hashed into a bucket, as crossed columns
// have it. The hash is SparseCross's: ids as they are and the fingerprints of texts, one mixed into the next.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_CROSSES_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_CROSSES_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// What the rows have of one feature, row after row.
struct CrossKey {
  const uint64_t* values = nullptr;
  int64_t of_row = 0;               // How many each row has, where `starts` is null.
  const int64_t* starts = nullptr;  // [rows + 1]: row r has those from starts[r] up to starts[r + 1].

  int64_t First(int64_t row) const { return starts == nullptr ? row * of_row : starts[row]; }
  int64_t Count(int64_t row) const { return starts == nullptr ? of_row : starts[row + 1] - starts[row]; }
};

struct Cross {
  std::vector<CrossKey> keys;
  uint64_t hash_key = 0;  // What the first value is mixed into.
  int64_t buckets = 0;    // Results are in [0, buckets), or where 0, below the largest int64.
  int64_t rows = 0;

  // By CountCrosses: row r has the results from starts[r] up to starts[r + 1], or where that is empty, of_row each.
  std::vector<int64_t> starts;
  int64_t of_row = 0;  // At most, of any row.
  int64_t total = 0;

  // [total, 2], row and place in it; [total].
  int64_t* indices = nullptr;
  int64_t* values = nullptr;
};

// Sets how many results there are. False if they are more than kMostResults, which no memory holds.
inline constexpr int64_t kMostResults = int64_t{1} << 46;
bool CountCrosses(Cross* cross);

// Writes indices and values. The last key changes fastest.
void WriteCrosses(const std::vector<Cross>& all, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_CROSSES_H_
