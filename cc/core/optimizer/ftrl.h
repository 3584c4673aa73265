// FTRL-proximal (McMahan et al. 2013) as ResourceSparseApplyFtrl(V2) computes it. Slots: accumulator, linear.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_FTRL_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_FTRL_H_

#include "cc/core/base/half.h"
#include "cc/core/base/host_device.h"

namespace tf_booster {

template <class T>
struct BasicFtrlOptions {
  T lr = 0;
  T l1 = 0;
  T l2 = 0;
  T l2_shrinkage = 0;
  T lr_power = T(-0.5);
  bool multiply_linear_by_lr = false;  // The linear slot holds lr times what it holds otherwise.
};

// What TensorFlow's kernels on rows refuse, before they write anything; null: nothing.
template <class T>
const char* WrongFtrlOptions(const BasicFtrlOptions<T>& o) {
  if (!(o.lr > T(0)) && !(o.multiply_linear_by_lr && o.lr == T(0))) {
    return "lr is not above 0 (or 0 with multiply_linear_by_lr), and every row that it moves would be no number; where "
           "a "
           "schedule gives 0, begin or end it a little above";
  }
  if (!(o.l1 >= T(0))) return "l1 is below 0; wanted 0 or more";
  if (!(o.l2 >= T(0))) return "l2 is below 0; wanted 0 or more";
  if (!(o.l2_shrinkage >= T(0))) return "l2_shrinkage is below 0; wanted 0 or more";
  if (!(o.lr_power <= T(0))) return "lr_power is above 0; wanted 0 or less";
  return nullptr;
}

// kSquareRoot: lr_power is -0.5, the default and the vectorised case.
// kOneColumn: rows of one column (linear models) take another kernel in TensorFlow. It adds the terms of the linear
// slot in another order (where they nearly cancel the orders differ by more than 4 ulp), and has pow for the growth
// even where lr_power is -0.5, which is another float than the square root in one case of some hundreds.
template <class T, bool kSquareRoot, bool kOneColumn>
struct BasicFtrl {
  static constexpr int kNumSlots = 2;
  static constexpr const char* kName = "Ftrl";

  BasicFtrlOptions<T> options;

  TFB_HOST_DEVICE T Power(T x) const { return kSquareRoot ? Sqrt(x) : Pow(x, -options.lr_power); }

  TFB_HOST_DEVICE T Growth(T accumulator, T new_accumulator, T power) const {
#if !defined(__CUDA_ARCH__)
    // A card's pow is up to 4 units of the last place off, its square root none: that is nearer to the host's pow.
    if (kSquareRoot && kOneColumn) {
      return Pow(new_accumulator, -options.lr_power) - Pow(accumulator, -options.lr_power);
    }
#endif
    return power - Power(accumulator);
  }

  TFB_HOST_DEVICE static T Clamp(T x, T limit) {
    x = x < limit ? x : limit;
    return x > -limit ? x : -limit;
  }

  TFB_HOST_DEVICE static T Sum(T linear, T grad, T shift) {
    return kOneColumn ? (linear + grad) - shift : linear + (grad - shift);
  }

  TFB_HOST_DEVICE void operator()(T grad, T& value, T& accumulator, T& linear) const {
    const T lr = options.lr;
    const T shrunk_grad = grad + T(2) * options.l2_shrinkage * value;
    const T new_accumulator = accumulator + grad * grad;
    const T power = Power(new_accumulator);
    const T growth = Growth(accumulator, new_accumulator, power);
    if (options.multiply_linear_by_lr) {
      linear = Sum(linear, shrunk_grad * lr, growth * value);
      value = (Clamp(linear, options.l1 * lr) - linear) / (power + T(2) * options.l2 * lr);
    } else {
      linear = Sum(linear, shrunk_grad, growth / lr * value);
      value = (Clamp(linear, options.l1) - linear) / (power / lr + T(2) * options.l2);
    }
    accumulator = new_accumulator;
  }
};

using FtrlOptions = BasicFtrlOptions<float>;
template <bool kSquareRoot, bool kOneColumn>
using Ftrl = BasicFtrl<float, kSquareRoot, kOneColumn>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_FTRL_H_
