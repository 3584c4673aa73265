// Momentum in Keras's formulation, as ResourceSparseApplyKerasMomentum computes it: the slot holds the step itself,
// learning rate and sign included. Slot: momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_KERAS_MOMENTUM_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_KERAS_MOMENTUM_H_

#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicKerasMomentumOptions {
  T lr = 0;
  T momentum = 0;
  bool use_nesterov = false;
};

template <class T>
struct BasicKerasMomentum {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "KerasMomentum";

  BasicKerasMomentumOptions<T> options;

  TFB_HOST_DEVICE void operator()(T grad, T& value, T& momentum) const {
    momentum = momentum * options.momentum - grad * options.lr;
    if (options.use_nesterov) {
      value += momentum * options.momentum - grad * options.lr;
    } else {
      value += momentum;
    }
  }
};

using KerasMomentumOptions = BasicKerasMomentumOptions<float>;
using KerasMomentum = BasicKerasMomentum<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_KERAS_MOMENTUM_H_
