// RMSProp (Tieleman, Hinton 2012) as ResourceSparseApplyRMSProp computes it. Slots: ms, momentum.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_RMSPROP_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_RMSPROP_H_

#include "cc/core/base/half.h"
#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicRMSPropOptions {
  T lr = 0;
  T rho = 0;
  T momentum = 0;
  T epsilon = 0;
  bool epsilon_outside_sqrt = false;  // Keras without momentum: sqrt(ms) + epsilon in place of sqrt(ms + epsilon).
};

template <class T>
struct BasicRMSProp {
  static constexpr int kNumSlots = 2;
  static constexpr const char* kName = "RMSProp";

  BasicRMSPropOptions<T> options;

  TFB_HOST_DEVICE void operator()(T grad, T& value, T& ms, T& momentum) const {
    ms = ms * options.rho + grad * grad * (T(1) - options.rho);
    const T root = options.epsilon_outside_sqrt ? Sqrt(ms) + options.epsilon : Sqrt(ms + options.epsilon);
    momentum = momentum * options.momentum + options.lr * grad / root;
    value -= momentum;
  }
};

using RMSPropOptions = BasicRMSPropOptions<float>;
using RMSProp = BasicRMSProp<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_RMSPROP_H_
