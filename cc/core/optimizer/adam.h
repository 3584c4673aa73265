// Adam (Kingma, Ba 2014) as ResourceApplyAdam computes it: the bias correction is in the learning rate, epsilon outside
// of the root ("epsilon hat" of the paper). Only rows with a gradient move, where TensorFlow's own sparse Adam decays
// and moves every row at every step. Slots: m, v.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ADAM_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ADAM_H_

#include <cmath>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct AdamOptions {
  float beta1_power = 0.0f;  // beta1 to the power of the step; 0 where lr holds the bias correction already.
  float beta2_power = 0.0f;
  float lr = 0.0f;
  float beta1 = 0.0f;
  float beta2 = 0.0f;
  float epsilon = 0.0f;
  bool use_nesterov = false;
};

struct Adam {
  static constexpr int kNumSlots = 2;
  static constexpr const char* kName = "Adam";

  explicit Adam(const AdamOptions& o)
      : options(o), alpha(o.lr * sqrtf(1.0f - o.beta2_power) / (1.0f - o.beta1_power)) {}

  AdamOptions options;
  float alpha;  // The learning rate with the bias correction.

  TFB_HOST_DEVICE void operator()(float grad, float& value, float& m, float& v) const {
    m += (grad - m) * (1.0f - options.beta1);
    v += (grad * grad - v) * (1.0f - options.beta2);
    const float direction = options.use_nesterov ? grad * (1.0f - options.beta1) + options.beta1 * m : m;
    value -= direction * alpha / (sqrtf(v) + options.epsilon);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ADAM_H_
