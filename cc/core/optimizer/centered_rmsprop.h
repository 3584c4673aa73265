// RMSProp that divides by an estimate of the gradient's variance (Graves 2013), as ResourceSparseApplyCenteredRMSProp
// computes it. Slots: mg, ms, momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_CENTERED_RMSPROP_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_CENTERED_RMSPROP_H_

#include <cmath>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct CenteredRMSPropOptions {
  float lr = 0.0f;
  float rho = 0.0f;
  float momentum = 0.0f;
  float epsilon = 0.0f;
  bool epsilon_outside_sqrt = false;  // Keras without momentum: sqrt(ms - mg²) + epsilon in place of sqrt(… + epsilon).
};

struct CenteredRMSProp {
  static constexpr int kNumSlots = 3;
  static constexpr const char* kName = "CenteredRMSProp";

  CenteredRMSPropOptions options;

  TFB_HOST_DEVICE void operator()(float grad, float& value, float& mg, float& ms, float& momentum) const {
    ms = ms * options.rho + grad * grad * (1.0f - options.rho);
    mg = mg * options.rho + grad * (1.0f - options.rho);
    // The order of the sum is TensorFlow's: it decides the bits where ms and mg² nearly cancel.
    const float root =
        options.epsilon_outside_sqrt ? sqrtf(ms - mg * mg) + options.epsilon : sqrtf(ms + options.epsilon - mg * mg);
    momentum = momentum * options.momentum + options.lr * grad / root;
    value -= momentum;
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_CENTERED_RMSPROP_H_
