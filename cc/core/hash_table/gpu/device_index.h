// The index of a table on the card: the entries of table_layout.h in buckets of four, probed by groups of four lanes.
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
#include "cc/core/gpu/group.h"
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

// One bucket, read once.
class BucketView {
 public:
#if defined(__CUDA_ARCH__)
  // From the second-level cache: a first-level one would not see other multiprocessors' claims.
  __device__ __forceinline__ BucketView(const Group& group, const DeviceEntry* bucket) : group_(group) {
    const ulonglong2 words = __ldcg(reinterpret_cast<const ulonglong2*>(bucket + group.rank()));
    key_ = words.x;
    tag_ = words.y;
  }
  template <class Test>
  __device__ __forceinline__ uint32_t Which(const Test& test) const {
    return group_.Ballot(test(key_, tag_));
  }
  __device__ __forceinline__ uint64_t tag(int i) const { return group_.FromLane(tag_, i); }

 private:
  const Group& group_;
  uint64_t key_, tag_;
#else
  BucketView(const Group&, const DeviceEntry* bucket) {
    for (int i = 0; i < kBucket; ++i) {
      key_[i] = LoadRelaxed(&bucket[i].key);
      tag_[i] = LoadRelaxed(&bucket[i].tag);
    }
  }
  template <class Test>
  uint32_t Which(const Test& test) const {
    uint32_t bits = 0;
    for (int i = 0; i < kBucket; ++i) bits |= uint32_t{test(key_[i], tag_[i])} << i;
    return bits;
  }
  uint64_t tag(int i) const { return tag_[i]; }

 private:
  uint64_t key_[kBucket], tag_[kBucket];
#endif
};

TFB_HOST_DEVICE int FirstOf(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return __builtin_ctz(bits);
#endif
}

struct Probe {
  int64_t entry = -1;    // That passes the test; -1 for none.
  uint64_t tag = 0;      // Its tag.
  int64_t vacancy = -1;  // Where there is no such entry: the first one that an insert may take,
  uint64_t vacant = 0;   // and its tag.
};

// The entry on this hash's way for which test(key, tag), which is for live entries and perhaps claimed ones.
template <class Test>
TFB_HOST_DEVICE Probe ProbeFor(const Group& group, const DeviceIndex& index, uint64_t hash, const Test& test) {
  Probe probe;
  if (index.entries == nullptr) return probe;
  for (uint64_t b = index.BucketOf(hash);; b = index.After(b)) {
    const int64_t first = static_cast<int64_t>(b) * kBucket;
    const BucketView bucket(group, index.entries + first);
    const uint32_t hits = bucket.Which(test);
    if (hits != 0) {
      probe.entry = first + FirstOf(hits);
      probe.tag = bucket.tag(FirstOf(hits));
      return probe;
    }
    if (probe.vacancy < 0) {
      const uint32_t vacant = bucket.Which([](uint64_t, uint64_t tag) { return IsVacant(tag); });
      if (vacant != 0) {
        probe.vacancy = first + FirstOf(vacant);
        probe.vacant = bucket.tag(FirstOf(vacant));
      }
    }
    if (bucket.Which([](uint64_t, uint64_t tag) { return StateOf(tag) == kEmpty; }) != 0) return probe;
  }
}

// The live entry of a key, in kernels that claim nothing.
TFB_HOST_DEVICE Probe FindEntry(const Group& group, const DeviceIndex& index, int64_t key, uint32_t id) {
  return ProbeFor(group, index, HashKey(key, id), [=](uint64_t entry_key, uint64_t tag) {
    return entry_key == static_cast<uint64_t>(key) && LowOf(tag) == id && IsLive(StateOf(tag));
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
