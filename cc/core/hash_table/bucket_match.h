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
  uint32_t hits;   // Bit 4 * i: entry i is the key's; at most one.
  uint32_t empty;  // Not 0: the bucket has an empty entry, so a probe ends here.
};
inline constexpr uint32_t kFirstBits = 0x1111;  // Of the four of each entry.

#if TF_BOOSTER_VECTOR_MATCH
// Four entries at once. Each is compared with {key, field, kEmpty}: four lanes of 32 bits, which end as four bits of
// one word. A dead entry's field is no field, so that only fresh memory can hold a key that is dead: it is empty.
// (Entries transposed to keys, fields and states took twice as many instructions: 12.1 ns a find of dim 16 in the
// cache.)
inline BucketMatch MatchFourEntries(const IndexEntry* bucket, int64_t key, uint32_t field) {
  const __m128i* entries = reinterpret_cast<const __m128i*>(bucket);
  const __m128i wanted = _mm_insert_epi64(_mm_cvtsi64_si128(key), field, 1);
  const auto same = [&](int i) { return _mm_cmpeq_epi32(_mm_load_si128(entries + i), wanted); };
  const __m128i lanes = _mm_packs_epi16(_mm_packs_epi32(same(0), same(1)), _mm_packs_epi32(same(2), same(3)));
  const uint32_t bits = static_cast<uint32_t>(_mm_movemask_epi8(lanes));
  return {bits & bits >> 1 & bits >> 2 & ~(bits >> 3) & kFirstBits, bits & kFirstBits << 3};
}
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
    match.hits |= uint32_t{hit} << 4 * i;
    match.empty |= uint32_t{bucket[i].state == kEmpty};
  }
  return match;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_BUCKET_MATCH_H_
