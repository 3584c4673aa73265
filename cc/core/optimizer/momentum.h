// Momentum as ResourceSparseApplyMomentum computes it. Slot: momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MOMENTUM_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MOMENTUM_H_

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct MomentumOptions {
  float lr = 0.0f;
  float momentum = 0.0f;
  bool use_nesterov = false;
};

struct Momentum {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "Momentum";

  MomentumOptions options;

  TFB_HOST_DEVICE void operator()(float grad, float& value, float& momentum) const {
    momentum = momentum * options.momentum + grad;
    if (options.use_nesterov) {
      value -= options.lr * grad + options.lr * options.momentum * momentum;
    } else {
      value -= options.lr * momentum;
    }
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MOMENTUM_H_
