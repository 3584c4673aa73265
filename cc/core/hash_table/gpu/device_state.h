// What a table on the card consists of, as its kernels see it.
//
//   rows       in slabs that never move: row r >= 16 of slab log2(r) - 4 while slabs double, up to 256 KiB each, and of
//              slabs of one size beyond: the card's memory is not lent out before it is used, as the host's is
//   words      beside the rows, slab by slab:
//     counts     frequency and last-use step, 32 bits each; where they may need more, their upper halves in `highs`
//     entries    4 bytes: where in the index the row's key and field are. A row does not know them itself
//     free list  a stack of row numbers, 4 bytes a row: a batch takes its rows from it by rank
//   counters   one block; the host reads it only when its own upper bounds say that it must
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DEVICE_STATE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DEVICE_STATE_H_

#include <cstdint>

#include "cc/core/gpu/group.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/words.h"
#include "cc/core/hash_table/gpu/device_index.h"
#include "cc/core/hash_table/hash_table.h"
#include "cc/core/hash_table/initializer.h"
#include "cc/core/hash_table/row_counts.h"

namespace tf_booster {
namespace gpu {

// Of rows without a place in the index: free ones, and those that are about to be.
inline constexpr uint32_t kFreeRow = 0xFFFFFFFFu;
inline constexpr uint32_t kLeavingRow = 0xFFFFFFFEu;
inline constexpr int64_t kMostEntries = kLeavingRow;

struct SlabRef {
  uintptr_t values;  // Where row 0 would be if the slab went down so far.
  uintptr_t words;   // Of the slab's first row.
  uintptr_t highs;   // RowMeta of the upper halves; null while no table needs them.
};
inline constexpr int64_t kWordBytesOfRow = sizeof(RowMeta) + 2 * sizeof(uint32_t);

// Rows in slabs that somebody else owns.
struct DeviceRows {
  const SlabRef* slabs = nullptr;
  int64_t dim = 0;
  int64_t num_slots = 0;
  int64_t stride_bytes = 0;
  int cap_bits = 0;   // Slabs of 2^cap_bits rows from row 2^cap_bits on.
  bool wide = false;  // Counts have upper halves.

  TFB_HOST_DEVICE static int HighestBit(uint32_t row) {
#if defined(__CUDA_ARCH__)
    return 31 - __clz(static_cast<int>(row));
#else
    return 31 - __builtin_clz(row);
#endif
  }
  TFB_HOST_DEVICE int SlabOf(uint32_t row) const {
    const int doubling = HighestBit(row);
    return doubling < cap_bits ? doubling - 4 : cap_bits - 4 + static_cast<int>(row >> cap_bits) - 1;
  }
  TFB_HOST_DEVICE float* Values(uint32_t row) const {
    return reinterpret_cast<float*>(slabs[SlabOf(row)].values + uintptr_t{row} * static_cast<uintptr_t>(stride_bytes));
  }
  TFB_HOST_DEVICE RowCounts Counts(uint32_t row) const {
    const RowMeta low = *Low(row);
    if (!wide) return {int64_t{low.frequency}, int64_t{low.last_step}};
    const RowMeta high = *High(row);
    return {int64_t{high.frequency} << 32 | low.frequency, int64_t{high.last_step} << 32 | low.last_step};
  }
  // Without upper halves what is too large for 32 bits becomes the largest number; the host sees to it that there is
  // no such frequency or step (GpuTableOn::EnsureCounts).
  TFB_HOST_DEVICE void SetCounts(uint32_t row, const RowCounts& counts) const {
    if (wide) *High(row) = {Upper(counts.frequency), Upper(counts.last_step)};
    *Low(row) = {Lower(counts.frequency), Lower(counts.last_step)};
  }
  // Place of the row's entry in the index; or kFreeRow or kLeavingRow.
  TFB_HOST_DEVICE uint32_t* Entry(uint32_t row) const { return WordsBehind<sizeof(RowMeta)>(row); }
  // Place k of the stack.
  TFB_HOST_DEVICE uint32_t* FreeRow(uint64_t k) const {
    return WordsBehind<sizeof(RowMeta) + sizeof(uint32_t)>(static_cast<uint32_t>(k) + kFirstRow);
  }

 private:
  // Of the row's slab, whose first row is a multiple of this.
  TFB_HOST_DEVICE uint32_t SlabRows(uint32_t row) const {
    const int doubling = HighestBit(row);
    return uint32_t{1} << (doubling < cap_bits ? doubling : cap_bits);
  }
  TFB_HOST_DEVICE RowMeta* Low(uint32_t row) const {
    return reinterpret_cast<RowMeta*>(slabs[SlabOf(row)].words) + (row & (SlabRows(row) - 1));
  }
  TFB_HOST_DEVICE RowMeta* High(uint32_t row) const {
    return reinterpret_cast<RowMeta*>(slabs[SlabOf(row)].highs) + (row & (SlabRows(row) - 1));
  }
  // The row's word in the array that follows kBytes for each row of the slab.
  template <uint32_t kBytes>
  TFB_HOST_DEVICE uint32_t* WordsBehind(uint32_t row) const {
    const uint32_t rows = SlabRows(row);
    return reinterpret_cast<uint32_t*>(slabs[SlabOf(row)].words + uintptr_t{rows} * kBytes) + (row & (rows - 1));
  }
  TFB_HOST_DEVICE uint32_t Lower(int64_t count) const {
    return wide || count < int64_t{0xFFFFFFFF} ? static_cast<uint32_t>(count) : 0xFFFFFFFFu;
  }
  TFB_HOST_DEVICE static uint32_t Upper(int64_t count) { return static_cast<uint32_t>(count >> 32); }
};
static_assert(kFirstRow == 16, "slab 0 begins at row 16");

// In the card's memory.
struct DeviceCounters {
  uint64_t used;       // Entries of the index that are not empty.
  uint64_t end;        // Rows kFirstRow … end - 1 were taken at least once.
  uint64_t free;       // Of these are free.
  uint64_t listed;     // Pending keys that the batch claimed.
  uint64_t duplicate;  // Of a batch whose keys must be distinct: 1 + a place whose key came before.
  uint64_t bad_code;   // 1 + a code of a gather that names no key.
  uint64_t outgrown;   // `used` of the index that was outgrown last.
  uint64_t epoch;      // Of handles, which have its lower half: another one since rows were freed.
  uint64_t frequency;  // Highest one of all rows, where it was asked for.
  uint64_t swapped;    // Rows that came to the card from the host's memory.
};

// By id of the field. Each field has two ids, as on the host (table_state.h).
struct DeviceField {
  RowInitializer initializer;
  int64_t min_frequency;
};

struct DeviceState {
  DeviceIndex index;
  DeviceRows rows;
  DeviceCounters* counters = nullptr;
  const DeviceField* fields = nullptr;
  const float* slot_initial_values = nullptr;
  const uint32_t* active = nullptr;  // [num_fields]: id of each field.
  const int64_t* steps = nullptr;    // By id, as are the following.
  uint64_t* field_rows = nullptr;    // Admitted.
  uint64_t* field_pending = nullptr;
  uint64_t* batch_rows = nullptr;  // New rows of the batch that is under way.
  uint64_t* field_evicted = nullptr;
  uint64_t* lowest_scores = nullptr;  // No row has a lower one, where eviction goes by last use.
  uint32_t num_fields = 0;

  // Of a row that was taken and is not free.
  TFB_HOST_DEVICE const DeviceEntry& EntryOf(uint32_t row) const { return index.entries[*rows.Entry(row)]; }
  // The row's field, kNoField for a free one. Row numbers below counters->end.
  TFB_HOST_DEVICE uint32_t IdOfRow(uint32_t row) const {
    const uint32_t entry = *rows.Entry(row);
    return entry >= kLeavingRow ? kNoField : LowOf(index.entries[entry].tag);
  }
};

// Keys of a batch in the card's memory. A key whose field is no field of the table is none: it has no row, and an
// insert passes it over. So a batch may have room behind its last key.
struct DeviceKeys {
  const int64_t* keys = nullptr;
  const uint32_t* fields = nullptr;
  int64_t size = 0;
  uint32_t field = 0;
  uint32_t id = kNoField;  // Unless kNoField: all keys are of this id, whatever the active one.

  TFB_HOST_DEVICE uint32_t IdOf(const DeviceState& state, int64_t i) const {
    if (id != kNoField) return id;
    const uint32_t of = fields == nullptr ? field : fields[i];
    return of < state.num_fields ? state.active[of] : kNoField;
  }
};

struct DeviceHandles {
  const RowHandle* handles = nullptr;  // Null: probe.

  // The row, or 0 if the key must be probed for.
  TFB_HOST_DEVICE uint32_t FreshRow(const DeviceState& state, int64_t i) const {
    if (handles == nullptr) return 0;
    return FreshRows(static_cast<uint32_t>(state.counters->epoch), state.counters->end)(handles[i]);
  }
};
TFB_HOST_DEVICE RowHandle HandleOf(const DeviceState& state, uint32_t row) {
  return row == 0 ? kNoRow : tf_booster::HandleOf(row, static_cast<uint32_t>(state.counters->epoch));
}

// The number of the only bit.
TFB_HOST_DEVICE int BitNumber(uint64_t bit) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(bit)) - 1;
#else
  return __builtin_ctzll(bit);
#endif
}
TFB_HOST_DEVICE int BitCount(uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __popcll(bits);
#else
  return __builtin_popcountll(bits);
#endif
}

// The row of key i, or 0; by one thread.
TFB_HOST_DEVICE uint32_t RowOf(const DeviceState& state, const DeviceKeys& keys, const DeviceHandles& handles,
                               int64_t i) {
  const uint32_t fresh = handles.FreshRow(state, i);
  if (fresh != 0) return fresh;
  const uint32_t id = keys.IdOf(state, i);
  if (id == kNoField) return 0;
  const uint32_t found = StateOf(FindEntry<false>(state.index, keys.keys[i], id).tag);
  return IsRow(found) ? found : 0;
}

// Arrays of floats that a group copies by words of 16, 8 or 4 bytes, as all addresses allow.
struct FloatCopy {
  int64_t columns = 0;
  int64_t word_bytes = 4;

  FloatCopy() = default;
  FloatCopy(int64_t columns, const void* array)
      : columns(columns),
        word_bytes(WidestWord(static_cast<uintptr_t>(columns) * sizeof(float) | reinterpret_cast<uintptr_t>(array))) {}

  template <class Word>
  TFB_HOST_DEVICE int64_t Words() const {
    return columns * static_cast<int64_t>(sizeof(float)) / static_cast<int64_t>(sizeof(Word));
  }
  template <class Word>
  TFB_HOST_DEVICE void By(const Group& group, const float* from, float* to) const {
    group.Copy(Words<Word>(), reinterpret_cast<const Word*>(from), reinterpret_cast<Word*>(to));
  }
  TFB_HOST_DEVICE void operator()(const Group& group, const float* from, float* to) const {
    if (word_bytes == 16) return By<Word16>(group, from, to);
    if (word_bytes == 8) return By<uint64_t>(group, from, to);
    By<uint32_t>(group, from, to);
  }
  // A row of each lane, at the address it answered with, to as many side by side; null: none.
  TFB_HOST_DEVICE void Rows(const Group& group, const Group::Answers& from, float* to) const {
    if (word_bytes == 16) return group.CopyRows(Words<Word16>(), from, reinterpret_cast<Word16*>(to));
    if (word_bytes == 8) return group.CopyRows(Words<uint64_t>(), from, reinterpret_cast<uint64_t*>(to));
    group.CopyRows(Words<uint32_t>(), from, reinterpret_cast<uint32_t*>(to));
  }
};

// Whether `columns` floats from there on are packs.
TFB_HOST_DEVICE bool ArePacks(int64_t columns, const float* at) {
  return columns % Pack<float>::kSize == 0 && reinterpret_cast<uintptr_t>(at) % kPackBytes == 0;
}

// As FloatCopy, of addresses that the host does not know.
TFB_HOST_DEVICE void CopyFloats(const Group& group, int64_t columns, const float* from, float* to) {
  if (ArePacks(columns, from) && ArePacks(columns, to)) {
    group.Copy(columns / Pack<float>::kSize, reinterpret_cast<const Pack<float>*>(from),
               reinterpret_cast<Pack<float>*>(to));
  } else {
    group.Copy(columns, from, to);
  }
}

TFB_HOST_DEVICE void FillWith(const Group& group, float value, int64_t columns, float* to) {
  if (ArePacks(columns, to)) {
    const Pack<float> pack = {{value, value, value, value}};
    group.ForEach(columns / Pack<float>::kSize,
                  [&](int64_t p) { StorePack(reinterpret_cast<Pack<float>*>(to) + p, pack); });
  } else {
    group.ForEach(columns, [&](int64_t c) { StorePack(to + c, value); });
  }
}

// The initial value of a key's row: a lane makes four columns at a time.
TFB_HOST_DEVICE void InitialRowBy(const Group& group, const RowInitializer& init, int64_t key, int64_t dim, float* to) {
  if (init.kind == InitializerKind::kConstant) return FillWith(group, init.a, dim, to);
  const bool packed = ArePacks(dim, to);
  group.ForEach(CeilDiv(dim, 4), [&](int64_t block) {
    Pack<float> pack;
    float* const values = pack.at;
    if (init.kind == InitializerKind::kUniform) {
      InitialColumns<InitializerKind::kUniform, 4>(init, key, 4 * block, values);
    } else if (init.kind == InitializerKind::kNormal) {
      InitialColumns<InitializerKind::kNormal, 4>(init, key, 4 * block, values);
    } else {
      InitialColumns<InitializerKind::kTruncatedNormal, 4>(init, key, 4 * block, values);
    }
    if (packed) return StorePack(reinterpret_cast<Pack<float>*>(to) + block, pack);
    TFB_UNROLL
    for (int64_t c = 0; c < 4; ++c) {
      if (4 * block + c < dim) StorePack(to + 4 * block + c, values[c]);
    }
  });
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DEVICE_STATE_H_
