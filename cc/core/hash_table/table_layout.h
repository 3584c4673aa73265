// The layout of a table, for host and device. The design and its reasons: docs/design/hash_table.md.
//
//   hash = HashKey(key, field)       high 4 bits: stripe            low bits: bucket of the stripe's index
//
//   index of a stripe (a power of two of buckets; grows by rehashing, about 16 bytes / load a key)
//   +---------------------------+---------------------------+---------------------------+---
//   | bucket 0: 64 bytes        | bucket 1                  | bucket 2                  | …
//   +------+------+------+------+---------------------------+---------------------------+---
//   | entry| entry| entry| entry|
//   +------+------+------+------+       state:  0           empty: a probe ends at a bucket that has one
//       |                                       1           tombstone: was erased, a probe goes on
//       +-- key    int64   8 bytes              16 … 2^31-1 the row
//       +-- field  uint32  4 bytes              2^31 + n    pending: seen n times, not admitted, no row
//       +-- state  uint32  4 bytes              2 … 15      reserved: a GPU insert claims an empty entry by a 32-bit
//                                                           compare-and-swap of `state` to such a value, writes key and
//                                                           field, and publishes the row; no 128-bit one is needed
//
//   rows of the table (all stripes together), in slabs that double and never move; row r is in slab log2(r) - 4
//   slab 0: rows 16 … 31      +--------------------+--------+--------+-----+     metas, slab by slab beside them
//   slab 1: rows 32 … 63      | embedding: dim     | slot 0 | slot 1 | pad |     +-----------+-----------+
//   slab 2: rows 64 … 127     +--------------------+--------+--------+-----+     | frequency | last step |
//   …                           stride: 16 or 64 bytes times n                   +-----------+-----------+
//
// A find touches one bucket and one row. The meta is for updates, eviction and export. A row does not know its key:
// only the index has keys, and an export goes through it.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_LAYOUT_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_LAYOUT_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {

// No reserved keys: `state` alone says what an entry is.
struct alignas(16) IndexEntry {
  int64_t key;
  uint32_t field;
  uint32_t state;
};
static_assert(sizeof(IndexEntry) == 16, "four entries make a cache line");

inline constexpr uint32_t kEmpty = 0;  // Fresh memory is zero, so a new index needs no filling.
inline constexpr uint32_t kTombstone = 1;
inline constexpr uint32_t kFirstRow = 16;
inline constexpr uint32_t kMaxRow = (uint32_t{1} << 31) - 1;
inline constexpr uint32_t kPendingFlag = uint32_t{1} << 31;
inline constexpr uint32_t kMaxPendingCount = kPendingFlag - 1;

TFB_HOST_DEVICE bool IsLive(uint32_t state) { return state >= kFirstRow; }
TFB_HOST_DEVICE bool IsRow(uint32_t state) { return state - kFirstRow < kPendingFlag - kFirstRow; }
TFB_HOST_DEVICE bool IsPending(uint32_t state) { return state >= kPendingFlag; }
TFB_HOST_DEVICE uint32_t PendingCount(uint32_t state) { return IsPending(state) ? state - kPendingFlag : 0; }

inline constexpr int kStripeBits = 4;
inline constexpr int kStripes = 1 << kStripeBits;
TFB_HOST_DEVICE int StripeOf(uint64_t hash) { return static_cast<int>(hash >> (64 - kStripeBits)); }

// Beside each row. Words of CountPool.
struct RowMeta {
  uint32_t frequency;  // Of a free row: the next free one, or 0.
  uint32_t last_step;
};

// A field that no table has.
inline constexpr uint32_t kNoField = 0xFFFFFFFFu;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_LAYOUT_H_
