// The optimizer steps of TfBoosterMultiApply… and TfBoosterMultiSparseApply… on one element: what a GPU thread does.
//
// A step has kSlots, kScalars (hyperparameters, in the order of the op's inputs), a constructor from (scalars, flag),
// the flag being the op's bool attribute, and Step(grad, v): v[0] is the Variable's element, v[1…] those of its slots.
// The formulas are those of the ops' CPU kernels up to rounding: there Eigen takes an approximate reciprocal root for
// some, here roots and divisions are exact and nothing is fused. T: float, double, Float16
// or BFloat16, where each operation rounds, as Eigen's do.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ELEMENT_STEPS_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ELEMENT_STEPS_H_

#include "cc/core/base/half.h"
#include "cc/core/base/host_device.h"
#include "cc/core/optimizer/adagrad.h"
#include "cc/core/optimizer/adagrad_v2.h"
#include "cc/core/optimizer/adam.h"
#include "cc/core/optimizer/centered_rmsprop.h"
#include "cc/core/optimizer/ftrl.h"
#include "cc/core/optimizer/gradient_descent.h"
#include "cc/core/optimizer/keras_momentum.h"
#include "cc/core/optimizer/momentum.h"
#include "cc/core/optimizer/rmsprop.h"

namespace tf_booster {
namespace element {

// Formula: the row optimizers' formula.
template <class T, class Formula, int kNumScalars>
struct FormulaStep {
  using Type = T;
  static constexpr int kSlots = Formula::kNumSlots;
  static constexpr int kScalars = kNumScalars;
  Formula formula;

  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    if constexpr (kSlots == 0) formula(grad, v[0]);
    if constexpr (kSlots == 1) formula(grad, v[0], v[1]);
    if constexpr (kSlots == 2) formula(grad, v[0], v[1], v[2]);
    if constexpr (kSlots == 3) formula(grad, v[0], v[1], v[2], v[3]);
  }
};

template <class T>
struct GradientDescent : FormulaStep<T, BasicGradientDescent<T>, 1> {
  TFB_HOST_DEVICE GradientDescent(const T* s, bool) : FormulaStep<T, BasicGradientDescent<T>, 1>{{{s[0]}}} {}
};

template <class T>
struct Momentum : FormulaStep<T, BasicMomentum<T>, 2> {
  TFB_HOST_DEVICE Momentum(const T* s, bool nesterov) : FormulaStep<T, BasicMomentum<T>, 2>{{{s[0], s[1], nesterov}}} {}
};

template <class T>
struct KerasMomentum : FormulaStep<T, BasicKerasMomentum<T>, 2> {
  TFB_HOST_DEVICE KerasMomentum(const T* s, bool nesterov)
      : FormulaStep<T, BasicKerasMomentum<T>, 2>{{{s[0], s[1], nesterov}}} {}
};

template <class T>
struct Adagrad : FormulaStep<T, BasicAdagrad<T>, 1> {
  TFB_HOST_DEVICE Adagrad(const T* s, bool update_slots) : FormulaStep<T, BasicAdagrad<T>, 1>{{{s[0], update_slots}}} {}
};

template <class T>
struct AdagradV2 : FormulaStep<T, BasicAdagradV2<T>, 2> {
  TFB_HOST_DEVICE AdagradV2(const T* s, bool update_slots)
      : FormulaStep<T, BasicAdagradV2<T>, 2>{{{s[0], s[1], update_slots}}} {}
};

template <class T>
struct Adam : FormulaStep<T, BasicAdam<T>, 6> {
  TFB_HOST_DEVICE Adam(const T* s, bool nesterov)
      : FormulaStep<T, BasicAdam<T>, 6>{BasicAdam<T>({s[0], s[1], s[2], s[3], s[4], s[5], nesterov})} {}
};

template <class T>
struct RMSProp : FormulaStep<T, BasicRMSProp<T>, 4> {
  TFB_HOST_DEVICE RMSProp(const T* s, bool) : FormulaStep<T, BasicRMSProp<T>, 4>{{{s[0], s[1], s[2], s[3]}}} {}
};

template <class T>
struct CenteredRMSProp : FormulaStep<T, BasicCenteredRMSProp<T>, 4> {
  TFB_HOST_DEVICE CenteredRMSProp(const T* s, bool)
      : FormulaStep<T, BasicCenteredRMSProp<T>, 4>{{{s[0], s[1], s[2], s[3]}}} {}
};

// Whether lr_power is that of a root is known on the card alone.
template <class T, int kNumScalars>
struct FtrlStep {
  using Type = T;
  static constexpr int kSlots = 2;
  static constexpr int kScalars = kNumScalars;
  BasicFtrlOptions<T> options;

  // lr, l1, l2, with five the shrinkage, and the power.
  TFB_HOST_DEVICE FtrlStep(const T* s, bool by_lr)
      : options{s[0], s[1], s[2], kNumScalars == 5 ? s[3] : T(0), s[kNumScalars - 1], by_lr} {}

  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    if (options.lr_power == T(-0.5)) {
      BasicFtrl<T, true, false>{options}(grad, v[0], v[1], v[2]);
    } else {
      BasicFtrl<T, false, false>{options}(grad, v[0], v[1], v[2]);
    }
  }
};

// TensorFlow's dense kernels give a weight 0 unless its linear slot is above the limit, so also if that is NaN. Those
// on rows give NaN.
template <class T, int kNumScalars>
struct DenseFtrlStep : FtrlStep<T, kNumScalars> {
  TFB_HOST_DEVICE DenseFtrlStep(const T* s, bool by_lr) : FtrlStep<T, kNumScalars>(s, by_lr) {}
  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    FtrlStep<T, kNumScalars>::Step(grad, v);
    if (!(v[2] == v[2])) v[0] = T(0);
  }
};

template <class T>
using Ftrl = DenseFtrlStep<T, 4>;
template <class T>
using FtrlV2 = DenseFtrlStep<T, 5>;

// What the proximal steps do behind the gradient: shrinks towards zero by rate * l1, and scales by rate * l2.
template <class T>
TFB_HOST_DEVICE T Proximal(T value, T rate, T l1, T l2) {
  const T scale = T(1) + l2 * rate;
  if (!(l1 > T(0))) return value / scale;
  const T size = Abs(value) - rate * l1;
  const T sign = value > T(0) ? T(1) : value < T(0) ? T(-1) : value;
  return sign * (size > T(0) ? size : T(0)) / scale;
}

template <class T>
struct ProximalGradientDescent {
  using Type = T;
  static constexpr int kSlots = 0;
  static constexpr int kScalars = 3;
  T lr, l1, l2;
  TFB_HOST_DEVICE ProximalGradientDescent(const T* s, bool) : lr(s[0]), l1(s[1]), l2(s[2]) {}

  TFB_HOST_DEVICE void Step(T grad, T* v) const { v[0] = Proximal(v[0] - grad * lr, lr, l1, l2); }
};

template <class T>
struct ProximalAdagrad {
  using Type = T;
  static constexpr int kSlots = 1;
  static constexpr int kScalars = 3;
  T lr, l1, l2;
  TFB_HOST_DEVICE ProximalAdagrad(const T* s, bool) : lr(s[0]), l1(s[1]), l2(s[2]) {}

  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    v[1] += grad * grad;
    const T rate = lr / Sqrt(v[1]);
    v[0] = Proximal(v[0] - grad * rate, rate, l1, l2);
  }
};

template <class T>
struct Adadelta {
  using Type = T;
  static constexpr int kSlots = 2;
  static constexpr int kScalars = 3;
  T lr, rho, epsilon;
  TFB_HOST_DEVICE Adadelta(const T* s, bool) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}

  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    v[1] = v[1] * rho + grad * grad * (T(1) - rho);
    const T update = Sqrt(v[2] + epsilon) / Sqrt(v[1] + epsilon) * grad;
    v[0] -= update * lr;
    v[2] = v[2] * rho + update * update * (T(1) - rho);
  }
};

template <class T>
struct AdamWithAmsgrad {
  using Type = T;
  static constexpr int kSlots = 3;
  static constexpr int kScalars = 6;
  T alpha, beta1, beta2, epsilon;
  TFB_HOST_DEVICE AdamWithAmsgrad(const T* s, bool)
      : alpha(s[2] * Sqrt(T(1) - s[1]) / (T(1) - s[0])), beta1(s[3]), beta2(s[4]), epsilon(s[5]) {}

  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    v[1] += (grad - v[1]) * (T(1) - beta1);
    v[2] += (grad * grad - v[2]) * (T(1) - beta2);
    v[3] = v[3] < v[2] ? v[2] : v[3];  // As std::max: NaN changes nothing.
    v[0] -= v[1] * alpha / (Sqrt(v[3]) + epsilon);
  }
};

template <class T>
struct AdaMax {
  using Type = T;
  static constexpr int kSlots = 2;
  static constexpr int kScalars = 5;
  T rate, beta1, beta2, epsilon;  // rate: with the bias correction.
  TFB_HOST_DEVICE AdaMax(const T* s, bool) : rate(s[1] / (T(1) - s[0])), beta1(s[2]), beta2(s[3]), epsilon(s[4]) {}

  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    v[1] += (grad - v[1]) * (T(1) - beta1);
    const T decayed = beta2 * v[2], size = Abs(grad);
    v[2] = decayed < size ? size : decayed;  // As std::max: NaN changes nothing.
    v[0] -= rate * (v[1] / (v[2] + epsilon));
  }
};

// v[0] follows `grad`, the new value: TensorFlow's v -= (v - value) * rate, which is three ops there.
template <class T>
struct MovingAverage {
  using Type = T;
  static constexpr int kSlots = 0;
  static constexpr int kScalars = 1;
  T rate;
  TFB_HOST_DEVICE MovingAverage(const T* s, bool) : rate(s[0]) {}

  TFB_HOST_DEVICE void Step(T grad, T* v) const { v[0] -= (v[0] - grad) * rate; }
};

}  // namespace element

// The steps of the dense ops that TensorFlow's GPU build has, too.
// clang-format off
#define TFB_DENSE_STEPS(X) \
  X(GradientDescent) X(ProximalGradientDescent) X(Momentum) X(KerasMomentum) X(Adagrad) X(AdagradV2) \
  X(ProximalAdagrad) X(Adadelta) X(Adam) X(AdamWithAmsgrad) X(AdaMax) X(Ftrl) X(FtrlV2) X(RMSProp) \
  X(CenteredRMSProp) X(MovingAverage)
// clang-format on

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ELEMENT_STEPS_H_
