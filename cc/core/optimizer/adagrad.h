// Adagrad (Duchi, Hazan, Singer 2011) as ResourceSparseApplyAdagrad computes it. Slot: accumulator.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_H_

#include <cmath>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct AdagradOptions {
  float lr = 0.0f;
  bool update_slots = true;
};

struct Adagrad {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "Adagrad";

  AdagradOptions options;

  // A true square root and division: TensorFlow's own reciprocal square root is an approximation that differs from one
  // processor to another, by up to 2 ulp.
  TFB_HOST_DEVICE void operator()(float grad, float& value, float& accumulator) const {
    if (options.update_slots) accumulator += grad * grad;
    value -= options.lr * grad / sqrtf(accumulator);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_H_
