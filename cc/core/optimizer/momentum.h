// Momentum as ResourceSparseApplyMomentum computes it. Slot: momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MOMENTUM_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MOMENTUM_H_

#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicMomentumOptions {
  T lr = 0;
  T momentum = 0;
  bool use_nesterov = false;
};

template <class T>
struct BasicMomentum {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "Momentum";

  BasicMomentumOptions<T> options;

  TFB_HOST_DEVICE void operator()(T grad, T& value, T& momentum) const {
    momentum = momentum * options.momentum + grad;
    if (options.use_nesterov) {
      value -= options.lr * grad + options.lr * options.momentum * momentum;
    } else {
      value -= options.lr * momentum;
    }
  }
};

using MomentumOptions = BasicMomentumOptions<float>;
using Momentum = BasicMomentum<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MOMENTUM_H_
