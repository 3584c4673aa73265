// The steps of TfBoosterMultiSparseApply… on one element of a row. Most are the dense ones; those with kEveryRow have
// Decay(v), which comes first, and Finish(v), which comes last, on rows without a gradient too.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_STEPS_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_STEPS_H_

#include <cmath>

#include "cc/core/optimizer/element_steps.h"

namespace tf_booster {
namespace row {

template <class Step>
struct RowsWithGradient : Step {
  static constexpr bool kEveryRow = false;
  using Step::Step;
  TFB_HOST_DEVICE RowsWithGradient(const typename Step::Type* s, bool flag) : Step(s, flag) {}
  TFB_HOST_DEVICE void Decay(typename Step::Type*) const {}
  TFB_HOST_DEVICE void Finish(typename Step::Type*) const {}
};

template <class T>
using GradientDescent = RowsWithGradient<element::GradientDescent<T>>;
template <class T>
using Momentum = RowsWithGradient<element::Momentum<T>>;
template <class T>
using KerasMomentum = RowsWithGradient<element::KerasMomentum<T>>;
template <class T>
using Adagrad = RowsWithGradient<element::Adagrad<T>>;
template <class T>
using AdagradV2 = RowsWithGradient<element::AdagradV2<T>>;
template <class T>
using Adadelta = RowsWithGradient<element::Adadelta<T>>;
template <class T>
using Ftrl = RowsWithGradient<element::FtrlStep<T, 4>>;
template <class T>
using FtrlV2 = RowsWithGradient<element::FtrlStep<T, 5>>;
template <class T>
using RMSProp = RowsWithGradient<element::RMSProp<T>>;
template <class T>
using CenteredRMSProp = RowsWithGradient<element::CenteredRMSProp<T>>;

// TensorFlow's Adam on IndexedSlices; with the flag (lazy) rows without a gradient stay.
template <class T>
struct Adam {
  using Type = T;
  static constexpr int kSlots = 2;
  static constexpr int kScalars = 4;
  static constexpr bool kEveryRow = true;
  T alpha, beta1, beta2, epsilon;
  TFB_HOST_DEVICE Adam(const T* s, bool) : alpha(s[0]), beta1(s[1]), beta2(s[2]), epsilon(s[3]) {}

  TFB_HOST_DEVICE void Decay(T* v) const {
    v[1] = v[1] * beta1;
    v[2] = v[2] * beta2;
  }
  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    v[1] += grad * (T(1) - beta1);
    v[2] += grad * grad * (T(1) - beta2);
  }
  TFB_HOST_DEVICE void Finish(T* v) const { v[0] -= v[1] * alpha / (std::sqrt(v[2]) + epsilon); }
};

// Keras's RMSprop without momentum on IndexedSlices.
template <class T>
struct KerasRMSProp {
  using Type = T;
  static constexpr int kSlots = 1;
  static constexpr int kScalars = 3;
  static constexpr bool kEveryRow = true;
  T lr, rho, epsilon;
  TFB_HOST_DEVICE KerasRMSProp(const T* s, bool) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}

  TFB_HOST_DEVICE void Decay(T* v) const { v[1] = v[1] * rho; }
  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    v[1] += grad * grad * (T(1) - rho);
    v[0] -= grad * lr / (std::sqrt(v[1]) + epsilon);
  }
  TFB_HOST_DEVICE void Finish(T*) const {}
};

// Slots: mg, ms.
template <class T>
struct KerasCenteredRMSProp {
  using Type = T;
  static constexpr int kSlots = 2;
  static constexpr int kScalars = 3;
  static constexpr bool kEveryRow = true;
  T lr, rho, epsilon;
  TFB_HOST_DEVICE KerasCenteredRMSProp(const T* s, bool) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}

  TFB_HOST_DEVICE void Decay(T* v) const {
    v[1] = v[1] * rho;
    v[2] = v[2] * rho;
  }
  TFB_HOST_DEVICE void Step(T grad, T* v) const {
    v[1] += grad * (T(1) - rho);
    v[2] += grad * grad * (T(1) - rho);
    v[0] -= grad * lr / (std::sqrt(v[2] - v[1] * v[1]) + epsilon);
  }
  TFB_HOST_DEVICE void Finish(T*) const {}
};

}  // namespace row

// clang-format off
#define TFB_ROW_STEPS(X) \
  X(GradientDescent) X(Momentum) X(KerasMomentum) X(Adagrad) X(AdagradV2) X(Adadelta) X(Ftrl) X(FtrlV2) \
  X(RMSProp) X(CenteredRMSProp) X(Adam) X(KerasRMSProp) X(KerasCenteredRMSProp)
// clang-format on

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_STEPS_H_
