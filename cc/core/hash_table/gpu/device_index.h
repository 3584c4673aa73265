// The index of a table on the card: the entries of table_layout.h in buckets of four, probed by a thread each: four
// loads of 16 bytes. To a group of four lanes a bucket is one load, but all four make the hash, and a warp has eight
// keys under way in place of 32: a million keys took an H100 97 us so, and take 68.
//
//   entry  16 bytes   key: int64 | tag: field in the low half, state in the high half
//
// Any number of buckets, so that an index grows by an eighth: the high bits of a hash choose one. An index is in the
// order of hashes, but for probes that went on, so one that grows is read and written from its beginning to its end.
//
// Kernels of a table run one after another, in the stream's order, so only inserts of one batch meet each other. They
// meet in the tag, which is one 64-bit word. An insert claims a vacancy by a compare-and-swap of the tag to (its place
// in the batch, "claimed"): the key can be read from the batch through the place, so nobody waits for somebody else's
// write, and `key` of an entry changes in other kernels than those that probe for it. A batch's keys that are equal
// lower the place to the first of them, which makes the outcome independent of scheduling.
//
// No key is doubled: each claims the first vacancy of its probe, and within a batch's claims vacancies only vanish. Of
// two equal keys the later one either meets the claim, or fails in its compare-and-swap and looks again.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DEVICE_INDEX_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DEVICE_INDEX_H_

#include <cstdint>

#include "cc/core/gpu/atomics.h"
#include "cc/core/gpu/pack.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/table_layout.h"

namespace tf_booster {
namespace gpu {

struct alignas(16) DeviceEntry {
  uint64_t key;
  uint64_t tag;
};
static_assert(sizeof(DeviceEntry) == sizeof(IndexEntry), "the layout of table_layout.h");

inline constexpr int64_t kBucket = 4;

// States of an entry that is claimed, by what it was before. All are below kFirstRow.
inline constexpr uint32_t kClaimedEmpty = 2;
inline constexpr uint32_t kClaimedTombstone = 3;
inline constexpr uint32_t kClaimedPending = 4;

TFB_HOST_DEVICE uint64_t MakeTag(uint32_t low, uint32_t state) { return uint64_t{state} << 32 | low; }
TFB_HOST_DEVICE uint32_t LowOf(uint64_t tag) { return static_cast<uint32_t>(tag); }
TFB_HOST_DEVICE uint32_t StateOf(uint64_t tag) { return static_cast<uint32_t>(tag >> 32); }
TFB_HOST_DEVICE bool IsVacant(uint64_t tag) { return StateOf(tag) <= kTombstone; }
TFB_HOST_DEVICE bool IsClaimed(uint64_t tag) {
  return StateOf(tag) >= kClaimedEmpty && StateOf(tag) <= kClaimedPending;
}

// An index that somebody else owns; without entries while the table is empty. It always has an empty entry.
struct DeviceIndex {
  DeviceEntry* entries = nullptr;
  uint64_t buckets = 0;

  TFB_HOST_DEVICE int64_t capacity() const { return static_cast<int64_t>(buckets * kBucket); }
  TFB_HOST_DEVICE uint64_t BucketOf(uint64_t hash) const {
#if defined(__CUDA_ARCH__)
    return __umul64hi(hash, buckets);
#else
    return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * buckets >> 64);
#endif
  }
  TFB_HOST_DEVICE uint64_t After(uint64_t bucket) const { return bucket + 1 == buckets ? 0 : bucket + 1; }
};

// kShared: other threads of the kernel are claiming or vacating. From the second-level cache then: a first-level one
// would not see other multiprocessors'.
template <bool kShared>
TFB_HOST_DEVICE DeviceEntry LoadEntry(const DeviceEntry* entry) {
  if constexpr (!kShared) return LoadPack(entry);
#if defined(__CUDA_ARCH__)
  const ulonglong2 words = __ldcg(reinterpret_cast<const ulonglong2*>(entry));
  return {words.x, words.y};
#else
  return {LoadRelaxed(&entry->key), LoadRelaxed(&entry->tag)};
#endif
}

struct Probe {
  int64_t entry = -1;    // That passes the test; -1 for none.
  uint64_t tag = 0;      // Its tag.
  int64_t vacancy = -1;  // Where there is no such entry: the first one that an insert may take,
  uint64_t vacant = 0;   // and its tag.
};

// The entry on this hash's way for which test(entry), which is for live entries and perhaps claimed ones.
template <bool kShared, class Test>
TFB_HOST_DEVICE Probe ProbeFor(const DeviceIndex& index, uint64_t hash, const Test& test) {
  Probe probe;
  if (index.entries == nullptr) return probe;
  for (uint64_t b = index.BucketOf(hash);; b = index.After(b)) {
    const int64_t first = static_cast<int64_t>(b) * kBucket;
    DeviceEntry entries[kBucket];
    TFB_UNROLL
    for (int i = 0; i < kBucket; ++i) entries[i] = LoadEntry<kShared>(index.entries + first + i);
    bool ends = false;
    TFB_UNROLL
    for (int i = 0; i < kBucket; ++i) {
      const uint64_t tag = entries[i].tag;
      if (probe.entry < 0 && test(entries[i])) {
        probe.entry = first + i;
        probe.tag = tag;
      }
      if (probe.vacancy < 0 && IsVacant(tag)) {
        probe.vacancy = first + i;
        probe.vacant = tag;
      }
      ends = ends || StateOf(tag) == kEmpty;
    }
    if (probe.entry >= 0 || ends) return probe;
  }
}

// The live entry of a key.
template <bool kShared>
TFB_HOST_DEVICE Probe FindEntry(const DeviceIndex& index, int64_t key, uint32_t id) {
  return ProbeFor<kShared>(index, HashKey(key, id), [=](const DeviceEntry& entry) {
    return entry.key == static_cast<uint64_t>(key) && LowOf(entry.tag) == id && IsLive(StateOf(entry.tag));
  });
}

// Vacates a live entry that nobody else vacates; says whether it is empty now. It may be where its bucket has an empty
// entry already, for probes end there anyway; that others of the bucket are vacated meanwhile changes nothing about it.
TFB_HOST_DEVICE bool Vacate(const DeviceIndex& index, int64_t entry) {
  const DeviceEntry* bucket = index.entries + entry / kBucket * kBucket;
  bool ends = false;
  for (int64_t i = 0; i < kBucket; ++i) ends |= StateOf(LoadRelaxed(&bucket[i].tag)) == kEmpty;
  StoreRelaxed(&index.entries[entry].tag, MakeTag(0, ends ? kEmpty : kTombstone));
  return ends;
}

// Enters a live entry of another index into one that is being built; its keys are distinct, so only the tag decides.
// Returns its place.
TFB_HOST_DEVICE int64_t Reenter(const DeviceIndex& index, const DeviceEntry& entry) {
  const uint64_t hash = HashKey(static_cast<int64_t>(entry.key), LowOf(entry.tag));
  for (uint64_t b = index.BucketOf(hash);; b = index.After(b)) {
    for (int64_t i = static_cast<int64_t>(b) * kBucket; i < static_cast<int64_t>(b + 1) * kBucket; ++i) {
      if (LoadRelaxed(&index.entries[i].tag) != 0) continue;
      if (AtomicCompareExchange(&index.entries[i].tag, uint64_t{0}, entry.tag) != 0) continue;
      StoreRelaxed(&index.entries[i].key, entry.key);
      return i;
    }
  }
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DEVICE_INDEX_H_
