// Momentum in Keras's formulation, as ResourceSparseApplyKerasMomentum computes it: the slot holds the step itself,
// learning rate and sign included. Slot: momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_KERAS_MOMENTUM_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_KERAS_MOMENTUM_H_

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct KerasMomentumOptions {
  float lr = 0.0f;
  float momentum = 0.0f;
  bool use_nesterov = false;
};

struct KerasMomentum {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "KerasMomentum";

  KerasMomentumOptions options;

  TFB_HOST_DEVICE void operator()(float grad, float& value, float& momentum) const {
    momentum = momentum * options.momentum - grad * options.lr;
    if (options.use_nesterov) {
      value += momentum * options.momentum - grad * options.lr;
    } else {
      value += momentum;
    }
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_KERAS_MOMENTUM_H_
