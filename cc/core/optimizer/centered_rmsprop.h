// RMSProp that divides by an estimate of the gradient's variance (Graves 2013), as ResourceSparseApplyCenteredRMSProp
// computes it. Slots: mg, ms, momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_CENTERED_RMSPROP_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_CENTERED_RMSPROP_H_

#include "cc/core/base/half.h"
#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicCenteredRMSPropOptions {
  T lr = 0;
  T rho = 0;
  T momentum = 0;
  T epsilon = 0;
  bool epsilon_outside_sqrt = false;  // Keras without momentum: sqrt(ms - mg²) + epsilon in place of sqrt(… + epsilon).
};

template <class T>
struct BasicCenteredRMSProp {
  static constexpr int kNumSlots = 3;
  static constexpr const char* kName = "CenteredRMSProp";

  BasicCenteredRMSPropOptions<T> options;

  TFB_HOST_DEVICE void operator()(T grad, T& value, T& mg, T& ms, T& momentum) const {
    ms = ms * options.rho + grad * grad * (T(1) - options.rho);
    mg = mg * options.rho + grad * (T(1) - options.rho);
    // The order of the sum is TensorFlow's: it decides the bits where ms and mg² nearly cancel.
    const T root =
        options.epsilon_outside_sqrt ? Sqrt(ms - mg * mg) + options.epsilon : Sqrt(ms + options.epsilon - mg * mg);
    momentum = momentum * options.momentum + options.lr * grad / root;
    value -= momentum;
  }
};

using CenteredRMSPropOptions = BasicCenteredRMSPropOptions<float>;
using CenteredRMSProp = BasicCenteredRMSProp<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_CENTERED_RMSPROP_H_
