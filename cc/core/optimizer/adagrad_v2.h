// Adagrad with an epsilon, as ResourceSparseApplyAdagradV2 computes it. Slot: accumulator.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_V2_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_V2_H_

#include "cc/core/base/half.h"
#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicAdagradV2Options {
  T lr = 0;
  T epsilon = 0;
  bool update_slots = true;
};

template <class T>
struct BasicAdagradV2 {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "AdagradV2";

  BasicAdagradV2Options<T> options;

  TFB_HOST_DEVICE void operator()(T grad, T& value, T& accumulator) const {
    if (options.update_slots) accumulator += grad * grad;
    value -= options.lr * grad / (Sqrt(accumulator) + options.epsilon);
  }
};

using AdagradV2Options = BasicAdagradV2Options<float>;
using AdagradV2 = BasicAdagradV2<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_V2_H_
