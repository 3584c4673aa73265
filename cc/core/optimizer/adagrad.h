// Adagrad (Duchi, Hazan, Singer 2011) as ResourceSparseApplyAdagrad computes it. Slot: accumulator.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_H_

#include "cc/core/base/half.h"
#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicAdagradOptions {
  T lr = 0;
  bool update_slots = true;
};

template <class T>
struct BasicAdagrad {
  static constexpr int kNumSlots = 1;
  static constexpr const char* kName = "Adagrad";

  BasicAdagradOptions<T> options;

  // A true square root and division: TensorFlow's own reciprocal square root is an approximation that differs from one
  // processor to another, by up to 2 ulp.
  TFB_HOST_DEVICE void operator()(T grad, T& value, T& accumulator) const {
    if (options.update_slots) accumulator += grad * grad;
    value -= options.lr * grad / Sqrt(accumulator);
  }
};

using AdagradOptions = BasicAdagradOptions<float>;
using Adagrad = BasicAdagrad<float>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ADAGRAD_H_
