// How often and when a row was used, for host and device.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_COUNTS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_COUNTS_H_

#include <cstdint>

namespace tf_booster {

struct RowCounts {
  int64_t frequency;
  int64_t last_step;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_COUNTS_H_
