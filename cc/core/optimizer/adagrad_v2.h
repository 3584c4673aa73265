// Adagrad with an epsilon, as ResourceSparseApplyAdagradV2 computes it. Slot: accumulator.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_V2_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_V2_H_

#include <cmath>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct AdagradV2Options {
  float lr = 0.0f;
  float epsilon = 0.0f;
  bool update_slots = true;
};

struct AdagradV2 {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "AdagradV2";

  AdagradV2Options options;

  TFB_HOST_DEVICE void operator()(float grad, float& value, float& accumulator) const {
    if (options.update_slots) accumulator += grad * grad;
    value -= options.lr * grad / (sqrtf(accumulator) + options.epsilon);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_V2_H_
