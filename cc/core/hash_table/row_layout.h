// Where things are in a row: [embedding | slot 0 | slot 1 | … | padding].
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_LAYOUT_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_LAYOUT_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct RowLayout {
  int64_t dim;
  int64_t slots;
  int64_t value_bytes;   // 4: float32. bfloat16 and float16 rows would say 2.
  int64_t stride_bytes;  // From one row to the next.

  RowLayout(int64_t dim, int64_t slots, int64_t value_bytes = 4)
      : dim(dim), slots(slots), value_bytes(value_bytes), stride_bytes(Stride((1 + slots) * dim * value_bytes)) {}

  TFB_HOST_DEVICE int64_t values() const { return (1 + slots) * dim; }

 private:
  // Rows of a line or more start on a line: a row of 64 bytes across two would double what a find reads. Smaller rows
  // start on 16 bytes, for aligned vectors.
  static int64_t Stride(int64_t bytes) {
    const int64_t unit = bytes >= 64 ? 64 : 16;
    return (bytes + unit - 1) / unit * unit;
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_LAYOUT_H_
