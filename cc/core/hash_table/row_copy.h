// Copies embeddings. memcpy of a length known at compile time is a few vector moves; called with a variable one it
// costs a third of a find of a short row.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_COPY_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_COPY_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tf_booster {

// kDim columns, or `dim` where kDim is 0.
template <int64_t kDim>
inline void CopyRow(float* to, const float* from, int64_t dim) {
  if constexpr (kDim == 0) {
    std::memcpy(to, from, dim * sizeof(float));
  } else if constexpr (kDim % 8 == 0) {
    for (int64_t i = 0; i < kDim; i += 8) _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
  } else {
    std::memcpy(to, from, kDim * sizeof(float));
  }
}

// Fetches a row into the second-level cache: a dozen rows of 512 bytes that are under way at once take all of the first
// level's few miss buffers, and every other load waits behind them (dim 128, uniform: find 11 M keys/s through the
// first level, 15 M through the second; an update of row and two slots 4.2 and 8.7 M). At dim 16 the two are equal.
inline void PrefetchRow(const float* row, int64_t columns) {
  constexpr int64_t kLine = 16;
  for (int64_t i = 0; i < columns; i += kLine) __builtin_prefetch(row + i, /*write=*/0, /*locality=*/2);
}

// Long rows are fetched line by line while an earlier row is copied, not all lines at once: see CopyRowAndFetch.
template <int64_t kDim>
inline constexpr bool kFetchedInCopies = kDim >= 64 && kDim % 16 == 0;

// Which lines of the target are fetched. Near: 2 KiB on and for writing, into the first-level cache, which is best
// where the target is in a cache already (finds one after another: uniform at dim 64 30 ns against 32, at 128 47
// against 54). Far: 8 KiB on, into the second-level cache, which is best where it is in none (gathers of a training
// step: Zipf's law at dims 16, 64 and 128 11.1, 27.4 and 50.4 ns near or not at all, and 10.1, 24.7 and 46.7 far).
// Finds at dim 16 fetch no line of the target: 19.4 ns, far 21.0.
enum class Target { kNear, kFar };

__attribute__((always_inline)) inline void FetchFar(float* to) {
  __builtin_prefetch(to + 2048, /*write=*/0, /*locality=*/2);
}

// CopyRow that fetches a line of `later`, a row to be copied soon, for each line that it copies, and a line of the
// target. Spread so, misses do not wait in a queue for each other: 512-byte rows that no cache holds took 60 ns each
// with all lines of a row fetched at once, 53 so, and 50 with the target's lines as well (medians of three runs on a
// quiet Zen 4; rows 8 to 24 ahead are alike, 4 are worse, and the first-level cache takes 69).
template <int64_t kDim, Target kTarget = Target::kNear>
inline void CopyRowAndFetch(float* to, const float* from, const float* later) {
  static_assert(kFetchedInCopies<kDim>);
  constexpr int64_t kNearAhead = 512;
  for (int64_t i = 0; i < kDim; i += 16) {
    __builtin_prefetch(later + i, /*write=*/0, /*locality=*/2);
    if constexpr (kTarget == Target::kNear) {
      __builtin_prefetch(to + kNearAhead + i, /*write=*/1, /*locality=*/3);
    } else {
      FetchFar(to + i);
    }
    _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
    _mm256_storeu_ps(to + i + 8, _mm256_loadu_ps(from + i + 8));
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_COPY_H_
