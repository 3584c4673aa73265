// Of a table with rows on a disk: what a batch needs of them is in an array on the card while it is under way, whose
// rows have numbers behind those of the table (GpuTableState::Overlay). So no kernel that reads or writes values knows.
//
//   LocateRows, ForeseeRows   the row of each key: of a find, of an insert before it is published
//   FlagOnDisk, (sum), ListOnDisk   those on the disk, in the order of the batch: the host copies them
//   MapRows    rows become places: their own numbers, or those in the array
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DISK_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DISK_BODIES_H_

#include "cc/core/hash_table/gpu/insert_bodies.h"
#include "cc/core/hash_table/gpu/row_file.h"
#include "cc/core/hash_table/gpu/update_bodies.h"

namespace tf_booster {
namespace gpu {

// Unit: a key.
struct LocateRows {
  DeviceState state;
  DeviceKeys keys;
  DeviceHandles handles;
  uint32_t* rows;
  TFB_HOST_DEVICE void operator()(int64_t i) const { rows[i] = RowOf(state, keys, handles, i); }
};

// Unit: a key; behind the sum over new rows, for which there are slabs.
struct ForeseeRows : InsertBody {
  uint32_t* rows;
  ForeseeRows(const InsertBody& body, uint32_t* r) : InsertBody(body), rows(r) {}

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    uint32_t row = batch.rows[i];
    if (row == 0 && batch.entries[i] != kNoEntry) {
      const uint32_t owner = batch.owners[i];
      if (batch.gets_row[owner] != 0) row = RowOfRank(static_cast<uint64_t>(batch.ranks[owner] - 1)) | kNewRow;
    }
    rows[i] = row;
  }
};

// Rows of a batch, flagged by kNewRow or not. Places that share a row share its copy if there is a set; each has its
// own otherwise.
struct RowsOnDisk : MarkRows {
  int64_t disk_from;
  int32_t* flags;  // [size]: 1 for places that have a copy,
  int32_t* ranks;  // and the inclusive sum of these.

  RowsOnDisk(const MarkRows& marks, int64_t from, int32_t* f, int32_t* r)
      : MarkRows(marks), disk_from(from), flags(f), ranks(r) {}
  TFB_HOST_DEVICE bool IsOnDisk(uint32_t row) const { return static_cast<int64_t>(row & ~kNewRow) >= disk_from; }
};

// Unit: a place, as below.
struct FlagOnDisk : RowsOnDisk {
  explicit FlagOnDisk(const RowsOnDisk& body) : RowsOnDisk(body) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const { flags[i] = IsOnDisk(rows[i]) && (set == nullptr || Chosen(i)); }
};

struct ListOnDisk : RowsOnDisk {
  uint32_t* list;
  ListOnDisk(const RowsOnDisk& body, uint32_t* l) : RowsOnDisk(body), list(l) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (flags[i] != 0) list[ranks[i] - 1] = rows[i];
  }
};

struct MapRows : RowsOnDisk {
  int64_t copies_from;  // The number of the first copy.
  uint32_t* places;     // May be `rows`.
  MapRows(const RowsOnDisk& body, int64_t from, uint32_t* p) : RowsOnDisk(body), copies_from(from), places(p) {}

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const uint32_t row = rows[i];
    if (!IsOnDisk(row)) {
      places[i] = row & ~kNewRow;
      return;
    }
    int64_t chosen = i;
    if (set != nullptr) {
      uint64_t word = 0;
      PlaceOf(row, &word);
      chosen = size - static_cast<int64_t>(word & 0xFFFFFFFFu);
    }
    places[i] = static_cast<uint32_t>(copies_from + ranks[chosen] - 1);
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_DISK_BODIES_H_
