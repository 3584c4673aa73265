// Linear probing over buckets, shared by host and device. A bucket of four entries is a cache line, so nearly every
// probe ends in the line where it began: at load 0.8 a hit reads 1.1 buckets on average. kEntries = 1 is plain linear
// probing.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_PROBING_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_PROBING_H_

#include <cstdint>

#include "cc/core/base/host_device.h"
#include "cc/core/hash_table/bucket_match.h"
#include "cc/core/hash_table/table_layout.h"

namespace tf_booster {

// An index that somebody else owns. It always has an entry that is empty, so that every probe ends.
struct IndexRef {
  IndexEntry* entries;
  uint64_t bucket_mask;  // Number of buckets, a power of two, less 1.
};

TFB_HOST_DEVICE int LowestBit(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return __builtin_ctz(bits);
#endif
}

template <int kEntries>
TFB_HOST_DEVICE IndexEntry* FirstBucket(const IndexRef& index, uint64_t hash) {
  return index.entries + (hash & index.bucket_mask) * kEntries;
}

// The live entry of (key, field), or null.
template <int kEntries>
TFB_HOST_DEVICE IndexEntry* FindEntry(const IndexRef& index, uint64_t hash, int64_t key, uint32_t field) {
  for (uint64_t b = hash & index.bucket_mask;; b = (b + 1) & index.bucket_mask) {
    IndexEntry* bucket = index.entries + b * kEntries;
    const BucketMatch match = MatchBucket<kEntries>(bucket, key, field);
    if (match.hits != 0) return bucket + LowestBit(match.hits) / 4;
    if (match.empty != 0) return nullptr;
  }
}

// One bucket of a probe alone. True: it says all, and `state` is the key's, or kEmpty; false: the probe goes on.
template <int kEntries>
TFB_HOST_DEVICE bool StateInBucket(const IndexEntry* bucket, int64_t key, uint32_t field, uint32_t* state) {
  const BucketMatch match = MatchBucket<kEntries>(bucket, key, field);
  *state = match.hits != 0 ? bucket[LowestBit(match.hits) / 4].state : kEmpty;
  return (match.hits | match.empty) != 0;
}

// The entries of a bucket that an insert may take, empty or tombstones, as bits. As MatchBucket without an early exit.
template <int kEntries>
TFB_HOST_DEVICE uint32_t VacantEntries(const IndexEntry* bucket) {
  uint32_t vacant = 0;
  for (int i = 0; i < kEntries; ++i) vacant |= uint32_t{bucket[i].state <= kTombstone} << i;
  return vacant;
}

// The first entry that an insert of an absent key with this hash may take.
template <int kEntries>
TFB_HOST_DEVICE IndexEntry* FindVacancy(const IndexRef& index, uint64_t hash) {
  for (uint64_t b = hash & index.bucket_mask;; b = (b + 1) & index.bucket_mask) {
    IndexEntry* bucket = index.entries + b * kEntries;
    const uint32_t vacant = VacantEntries<kEntries>(bucket);
    if (vacant != 0) return bucket + LowestBit(vacant);
  }
}

// The live entry of (key, field), or else the one that an insert of it takes, if every live entry of the key's probe
// has been there for as long as the vacant ones before it: what this function gave was filled, and nothing erased
// since.
template <int kEntries>
TFB_HOST_DEVICE IndexEntry* FindOrVacancy(const IndexRef& index, uint64_t hash, int64_t key, uint32_t field) {
  for (uint64_t b = hash & index.bucket_mask;; b = (b + 1) & index.bucket_mask) {
    IndexEntry* bucket = index.entries + b * kEntries;
    const BucketMatch match = MatchBucket<kEntries>(bucket, key, field);
    if (match.hits != 0) return bucket + LowestBit(match.hits) / 4;
    const uint32_t vacant = VacantEntries<kEntries>(bucket);
    if (vacant != 0) return bucket + LowestBit(vacant);
  }
}

// Vacates an entry. In a bucket where probes end anyway it becomes empty again and leaves no tombstone; says whether.
template <int kEntries>
TFB_HOST_DEVICE bool VacateEntry(const IndexRef& index, IndexEntry* entry) {
  const IndexEntry* bucket = index.entries + (entry - index.entries) / kEntries * kEntries;
  bool ends = false;
  for (int i = 0; i < kEntries; ++i) ends |= bucket[i].state == kEmpty;
  entry->state = ends ? kEmpty : kTombstone;
  entry->field = kNoField;  // MatchBucket counts on it.
  return ends;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_PROBING_H_
