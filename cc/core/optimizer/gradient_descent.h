// Gradient descent: value -= lr * grad. No slots.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_DESCENT_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_DESCENT_H_

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct GradientDescentOptions {
  float lr = 0.0f;
};

struct GradientDescent {
  static constexpr int kNumSlots = 0;
  static constexpr const char* kName = "GradientDescent";

  GradientDescentOptions options;

  TFB_HOST_DEVICE void operator()(float grad, float& value) const { value -= grad * options.lr; }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_DESCENT_H_
