// The rows of a table that several Variables hold, as tf.nn.embedding_lookup divides them: part and row of an id.
//
// Parts are as equal as can be, the first ones a row longer. "div": each has ids that follow each other. "mod": part p
// has the ids that leave p when divided by the number of parts. An id's **place** is its row where all parts stand one
// behind another: of "div" the id itself.
#ifndef TF_BOOSTER_CC_CORE_BASE_ROW_PARTS_H_
#define TF_BOOSTER_CC_CORE_BASE_ROW_PARTS_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct RowParts {
  int64_t parts = 1;
  int64_t rows = 0;  // Of all parts together.
  bool mod = false;

  struct Row {
    int64_t part;
    int64_t row;
  };

  TFB_HOST_DEVICE int64_t Begin(int64_t part) const {
    const int64_t longer = rows % parts;
    return part * (rows / parts) + (part < longer ? part : longer);
  }
  TFB_HOST_DEVICE int64_t Size(int64_t part) const { return rows / parts + (part < rows % parts ? 1 : 0); }

  // id, place: in [0, rows).
  TFB_HOST_DEVICE int64_t PlaceOf(int64_t id) const { return mod ? Begin(id % parts) + id / parts : id; }
  TFB_HOST_DEVICE Row RowAt(int64_t place) const {
    const int64_t size = rows / parts, longer = rows % parts, end_of_longer = longer * (size + 1);
    if (place < end_of_longer) return {place / (size + 1), place % (size + 1)};
    return {longer + (place - end_of_longer) / size, (place - end_of_longer) % size};
  }
  TFB_HOST_DEVICE Row RowOf(int64_t id) const { return mod ? Row{id % parts, id / parts} : RowAt(id); }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_ROW_PARTS_H_
