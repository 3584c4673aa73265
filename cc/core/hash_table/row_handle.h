// What a lookup leaves to the update behind it, for host and device: where a key's row is.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_HANDLE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_HANDLE_H_

#include <cstdint>

#include "cc/core/base/host_device.h"
#include "cc/core/hash_table/table_layout.h"

namespace tf_booster {

// Where a key's row lived when FindHandles answered. A method that takes handles takes them with the keys that they
// were given for; it notices when rows were erased or evicted since, and probes again, so a stale handle is slow and
// never wrong.
using RowHandle = int64_t;
inline constexpr RowHandle kNoRow = -1;

// A handle is (epoch << 31) | row. A table's epoch changes whenever rows are freed, so a handle of this epoch needs no
// check of its row's key, which would be one more cache miss; with another the key is probed for. An epoch comes back
// after 2^32 batches that freed rows; handles live for a step or two.
TFB_HOST_DEVICE RowHandle HandleOf(uint32_t row, uint32_t epoch) {
  return static_cast<RowHandle>(uint64_t{epoch} << 31 | row);
}

// Tells handles of one epoch and of rows kFirstRow … end - 1 from all others. A copy of what it needs: a loop keeps it
// in registers, where the loop's stores cannot have changed it.
class FreshRows {
 public:
  TFB_HOST_DEVICE FreshRows(uint32_t epoch, uint64_t end)
      : first_(static_cast<uint64_t>(HandleOf(kFirstRow, epoch))), rows_(end - kFirstRow) {}

  // The row, or 0 if the key must be probed for. By one comparison: a handle of another epoch is 2^31 - kFirstRow or
  // more away from first_, and so is a negative one, for first_ is at most 2^63 - 2^31 + kFirstRow.
  TFB_HOST_DEVICE uint32_t operator()(RowHandle handle) const {
    const uint64_t place = static_cast<uint64_t>(handle) - first_;
    return place < rows_ ? static_cast<uint32_t>(place) + kFirstRow : 0;
  }

 private:
  const uint64_t first_;
  const uint64_t rows_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_HANDLE_H_
