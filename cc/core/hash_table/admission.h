// The filter of rare keys: a key gets a row once it was seen min_frequency times in training; until then its index
// entry holds the exact count and no row.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ADMISSION_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ADMISSION_H_

#include <cstdint>

#include "cc/core/base/host_device.h"
#include "cc/core/hash_table/table_layout.h"

namespace tf_booster {

// The most that min_frequency may be: counts up to it fit beside the flag in an entry's state.
inline constexpr int64_t kMaxMinFrequency = kMaxPendingCount;

// What an entry without a row becomes when its key is seen.
struct Admission {
  bool admitted;
  int64_t seen;  // In all, this batch included.

  // The state of an entry that is not admitted. `seen` is below min_frequency then, and so fits.
  TFB_HOST_DEVICE uint32_t PendingState() const { return kPendingFlag + static_cast<uint32_t>(seen); }
};

// `before`: sightings so far. `count`: those of this batch, at least 1.
TFB_HOST_DEVICE Admission Admit(uint32_t before, int64_t count, int64_t min_frequency) {
  const int64_t seen = count > INT64_MAX - int64_t{before} ? INT64_MAX : int64_t{before} + count;
  return {seen >= min_frequency, seen};
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ADMISSION_H_
