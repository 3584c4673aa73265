// RMSProp (Tieleman, Hinton 2012) as ResourceSparseApplyRMSProp computes it. Slots: ms, momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_RMSPROP_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_RMSPROP_H_

#include <cmath>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct RMSPropOptions {
  float lr = 0.0f;
  float rho = 0.0f;
  float momentum = 0.0f;
  float epsilon = 0.0f;
  bool epsilon_outside_sqrt = false;  // Keras without momentum: sqrt(ms) + epsilon in place of sqrt(ms + epsilon).
};

struct RMSProp {
  static constexpr int kNumSlots = 2;
  static constexpr const char* kName = "RMSProp";

  RMSPropOptions options;

  TFB_HOST_DEVICE void operator()(float grad, float& value, float& ms, float& momentum) const {
    ms = ms * options.rho + grad * grad * (1.0f - options.rho);
    const float root = options.epsilon_outside_sqrt ? sqrtf(ms) + options.epsilon : sqrtf(ms + options.epsilon);
    momentum = momentum * options.momentum + options.lr * grad / root;
    value -= momentum;
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_RMSPROP_H_
