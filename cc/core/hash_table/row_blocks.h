// Copies rows of many keys whose places are at hand, block by block: one loop finds out where the rows of the next
// block are, another copies.
//
// A gather through handles so takes 11.4 ns a row in place of 14.1 at dim 16, 26 in place of 31 at dim 64 and 45.5 in
// place of 47 at dim 128 (Zipf's law, gradients and sums of a step between; a loop that knows the rows 6, 20 and 40):
// in one loop, in stages of a ring, whatever the one does stands between the misses of the other. A find is slower this
// way (dim 16 19 and 22 ns), for there both loops wait for memory, and each block's buckets have a beginning and an
// end.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_BLOCKS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/lines_ahead.h"
#include "cc/core/hash_table/row_copy.h"

namespace tf_booster {

constexpr int64_t kRowBlock = 256;
// Rows are fetched so far ahead of their copy, also those of the next block; and the first line of a long row so many
// rows before its others, for it waits for the page's address as well (see row_optimizer.cc). Without / with, on a
// quiet Granite Rapids: dim 64 59 / 53 ns a row, in a table with two slots 58 / 56; dim 128 118 / 108 and 120 / 103. 24
// and 48 rows are alike at dim 64, and worse at 128. On Zen 5 it takes 13.7 without and 14.7 with 16 rows at dim 64,
// 22.2 and 24.5 at 128 (Zipf's law, a table with two slots); 9 KiB in place of 6 are 5.5 for 5.9 ns at dim 16, the same
// beyond. Zen 3, 6 KiB and 16 rows / 6 KiB / 9 KiB and none: dim 64 44, 43 and 43 ns uniform, 33.6, 33.0 and 32.7 by
// Zipf's law, dim 128 88, 82 and 82, and 67, 65 and 67; dim 16, and 4 to 18 KiB, are alike.
struct CopyFetches {
  int64_t bytes_ahead;
  int64_t rows_opened;
};
inline const CopyFetches& CopyFetchesHere() {
  static const CopyFetches here = AmdFamily() > 0 ? CopyFetches{9216, 0} : CopyFetches{6144, 16};
  return here;
}

// For all i < n: copies the row of i to out + i * dim, or calls otherwise(i, out + i * dim) where it has none.
// locate(begin, count, rows) sets rows[k] to the row of begin + k, null where it has none, for `count` of at most
// kRowBlock. kDim: DispatchDim's.
template <int64_t kDim, class Locate, class Otherwise>
void CopyByBlocks(int64_t n, int64_t dim, float* out, const Locate& locate, const Otherwise& otherwise) {
  const auto [bytes_ahead, rows_opened] = CopyFetchesHere();
  const int64_t rows_ahead = std::clamp<int64_t>(bytes_ahead / (dim * sizeof(float)), 3, kRowBlock / 2);
  const float* rows[2 * kRowBlock];
  const auto locate_block = [&](int64_t begin) {
    const int64_t count = std::min(kRowBlock, n - begin);
    if (count <= 0) return;
    const float** const block = rows + begin % (2 * kRowBlock);
    locate(begin, count, block);
  };
  const auto row_of = [&](int64_t i) { return rows[i % (2 * kRowBlock)]; };
  locate_block(0);
  for (int64_t i = 0; i < std::min(n, rows_ahead); ++i) {
    if (row_of(i) != nullptr) PrefetchRow(row_of(i), dim);
  }
  for (int64_t begin = 0; begin < n; begin += kRowBlock) {
    locate_block(begin + kRowBlock);
    for (int64_t i = begin; i < std::min(n, begin + kRowBlock); ++i) {
      const float* const row = row_of(i);
      const float* later = row_of(std::min(n - 1, i + rows_ahead));
      float* const to = out + i * dim;
      if constexpr (kFetchedInCopies<kDim>) {
        if (rows_opened > 0) {
          const float* const opened = row_of(std::min(n - 1, i + rows_ahead + rows_opened));
          if (opened != nullptr) PrefetchRow(opened, 1);
        }
        if (row != nullptr) {
          CopyRowAndFetch<kDim, Target::kFar>(to, row, later == nullptr ? row : later);
          continue;
        }
        if (later != nullptr) PrefetchRow(later, kDim);
      } else {
        if (later != nullptr) PrefetchRow(later, kDim > 0 ? kDim : dim);
        for (int64_t j = 0; j < (kDim > 0 ? kDim : dim); j += 16) FetchFar(to + j);
        if (row != nullptr) {
          CopyRow<kDim>(to, row, dim);
          continue;
        }
      }
      otherwise(i, to);
    }
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_BLOCKS_H_
