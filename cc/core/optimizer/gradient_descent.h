// Gradient descent: value -= lr * grad. No slots.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_DESCENT_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_DESCENT_H_

#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicGradientDescentOptions {
  T lr = 0;
};

template <class T>
struct BasicGradientDescent {
  static constexpr int kNumSlots = 0;
  static constexpr const char* kName = "GradientDescent";

  BasicGradientDescentOptions<T> options;

  TFB_HOST_DEVICE void operator()(T grad, T& value) const { value -= grad * options.lr; }
};

using GradientDescentOptions = BasicGradientDescentOptions<float>;
using GradientDescent = BasicGradientDescent<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_DESCENT_H_
