// One bucket against one key: the only part of a probe that knows vector instructions.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_BUCKET_MATCH_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_BUCKET_MATCH_H_

#include <cstdint>

#include "cc/core/base/host_device.h"
#include "cc/core/hash_table/table_layout.h"

#if defined(__SSE4_1__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>
#define TF_BOOSTER_VECTOR_MATCH 1
#endif

namespace tf_booster {

struct BucketMatch {
  uint32_t hits;   // Bit i: entry i is the key's; at most one.
  uint32_t empty;  // Not 0: the bucket has an empty entry, so a probe ends here.
};

#if TF_BOOSTER_VECTOR_MATCH
// Four entries at once, transposed to keys, fields and states: half the time of a find in the cache.
inline BucketMatch MatchFourEntries(const IndexEntry* bucket, int64_t key, uint32_t field) {
  const __m128i* entries = reinterpret_cast<const __m128i*>(bucket);
  const __m128i e0 = _mm_load_si128(entries), e1 = _mm_load_si128(entries + 1);
  const __m128i e2 = _mm_load_si128(entries + 2), e3 = _mm_load_si128(entries + 3);
  const __m128i wanted = _mm_set1_epi64x(key);
  const __m128i keys01 = _mm_cmpeq_epi64(_mm_unpacklo_epi64(e0, e1), wanted);
  const __m128i keys23 = _mm_cmpeq_epi64(_mm_unpacklo_epi64(e2, e3), wanted);
  const __m128 rest01 = _mm_castsi128_ps(_mm_unpackhi_epi64(e0, e1));
  const __m128 rest23 = _mm_castsi128_ps(_mm_unpackhi_epi64(e2, e3));
  const __m128i fields = _mm_castps_si128(_mm_shuffle_ps(rest01, rest23, _MM_SHUFFLE(2, 0, 2, 0)));
  const __m128i states = _mm_castps_si128(_mm_shuffle_ps(rest01, rest23, _MM_SHUFFLE(3, 1, 3, 1)));
  const __m128i same_key = _mm_packs_epi32(keys01, keys23);  // 16 bits of each comparison twice: 32 an entry.
  const __m128i same_field = _mm_cmpeq_epi32(fields, _mm_set1_epi32(static_cast<int>(field)));
  const __m128i live_bits = _mm_and_si128(states, _mm_set1_epi32(~static_cast<int>(kFirstRow - 1)));
  const __m128i dead = _mm_cmpeq_epi32(live_bits, _mm_setzero_si128());
  const __m128i hits = _mm_andnot_si128(dead, _mm_and_si128(same_key, same_field));
  const __m128i empty = _mm_cmpeq_epi32(states, _mm_setzero_si128());
  return {static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(hits))),
          static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(empty)))};
}
static_assert((kFirstRow & (kFirstRow - 1)) == 0, "live states are those with a bit at or above kFirstRow's");
#endif

// No early exit: where in a bucket a key sits is not predictable, and a branch missed costs more than three
// comparisons.
template <int kEntries>
TFB_HOST_DEVICE BucketMatch MatchBucket(const IndexEntry* bucket, int64_t key, uint32_t field) {
#if TF_BOOSTER_VECTOR_MATCH
  if constexpr (kEntries == 4) return MatchFourEntries(bucket, key, field);
#endif
  BucketMatch match = {0, 0};
  for (int i = 0; i < kEntries; ++i) {
    const bool hit = (bucket[i].key == key) & (bucket[i].field == field) & IsLive(bucket[i].state);
    match.hits |= uint32_t{hit} << i;
    match.empty |= uint32_t{bucket[i].state == kEmpty} << i;
  }
  return match;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_BUCKET_MATCH_H_
