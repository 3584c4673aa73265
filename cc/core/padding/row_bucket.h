// To how many rows a batch is padded, so that few sizes occur.
#ifndef TF_BOOSTER_CC_CORE_PADDING_ROW_BUCKET_H_
#define TF_BOOSTER_CC_CORE_PADDING_ROW_BUCKET_H_

#include <cstdint>

namespace tf_booster {

// The least of 32, 48, 64, 96, 128, 192, … that is not below `rows`: powers of two and what is midway between them.
//
// At most a third of it is padding, a seventh on average if every number of rows is as likely. There are two sizes for
// each doubling, 13 up to 2,048 rows. `rows` is at most 2^61.
inline int64_t RowBucket(int64_t rows) {
  int64_t power = 32;
  while (power < rows) power *= 2;
  return power > 32 && rows <= power / 4 * 3 ? power / 4 * 3 : power;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PADDING_ROW_BUCKET_H_
