// FTRL-proximal (McMahan et al. 2013) as ResourceSparseApplyFtrl(V2) computes it. Slots: accumulator, linear.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_FTRL_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_FTRL_H_

#include <cmath>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct FtrlOptions {
  float lr = 0.0f;
  float l1 = 0.0f;
  float l2 = 0.0f;
  float l2_shrinkage = 0.0f;
  float lr_power = -0.5f;
  bool multiply_linear_by_lr = false;  // The linear slot holds lr times what it holds otherwise.
};

// kSquareRoot: lr_power is -0.5, the default and the vectorised case.
// kOneColumn: rows of one column (linear models) take another kernel in TensorFlow, which adds the terms of the linear
// slot in another order. Where they nearly cancel the orders differ by more than 4 ulp.
template <bool kSquareRoot, bool kOneColumn>
struct Ftrl {
  static constexpr int kNumSlots = 2;
  static constexpr const char* kName = "Ftrl";

  FtrlOptions options;

  TFB_HOST_DEVICE float Power(float x) const { return kSquareRoot ? sqrtf(x) : powf(x, -options.lr_power); }

  TFB_HOST_DEVICE static float Clamp(float x, float limit) {
    x = x < limit ? x : limit;
    return x > -limit ? x : -limit;
  }

  TFB_HOST_DEVICE static float Sum(float linear, float grad, float shift) {
    return kOneColumn ? (linear + grad) - shift : linear + (grad - shift);
  }

  TFB_HOST_DEVICE void operator()(float grad, float& value, float& accumulator, float& linear) const {
    const float lr = options.lr;
    const float shrunk_grad = grad + 2.0f * options.l2_shrinkage * value;
    const float new_accumulator = accumulator + grad * grad;
    const float power = Power(new_accumulator);
    const float growth = power - Power(accumulator);
    if (options.multiply_linear_by_lr) {
      linear = Sum(linear, shrunk_grad * lr, growth * value);
      value = (Clamp(linear, options.l1 * lr) - linear) / (power + 2.0f * options.l2 * lr);
    } else {
      linear = Sum(linear, shrunk_grad, growth / lr * value);
      value = (Clamp(linear, options.l1) - linear) / (power / lr + 2.0f * options.l2);
    }
    accumulator = new_accumulator;
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_FTRL_H_
