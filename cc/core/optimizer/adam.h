// Adam (Kingma, Ba 2014) as ResourceApplyAdam computes it: the bias correction is in the learning rate, epsilon outside
// of the root ("epsilon hat" of the paper). Only rows with a gradient move, where TensorFlow's own sparse Adam decays
// and moves every row at every step. Slots: m, v.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ADAM_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ADAM_H_

#include "cc/core/base/half.h"
#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicAdamOptions {
  T beta1_power = 0;  // beta1 to the power of the step; 0 where lr holds the bias correction already.
  T beta2_power = 0;
  T lr = 0;
  T beta1 = 0;
  T beta2 = 0;
  T epsilon = 0;
  bool use_nesterov = false;
};

template <class T>
struct BasicAdam {
  static constexpr int kNumSlots = 2;
  static constexpr const char* kName = "Adam";

  TFB_HOST_DEVICE explicit BasicAdam(const BasicAdamOptions<T>& o)
      : options(o), alpha(o.lr * Sqrt(T(1) - o.beta2_power) / (T(1) - o.beta1_power)) {}

  BasicAdamOptions<T> options;
  T alpha;  // The learning rate with the bias correction.

  TFB_HOST_DEVICE void operator()(T grad, T& value, T& m, T& v) const {
    m += (grad - m) * (T(1) - options.beta1);
    v += (grad * grad - v) * (T(1) - options.beta2);
    const T direction = options.use_nesterov ? grad * (T(1) - options.beta1) + options.beta1 * m : m;
    value -= direction * alpha / (Sqrt(v) + options.epsilon);
  }
};

using AdamOptions = BasicAdamOptions<float>;
using Adam = BasicAdam<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ADAM_H_
