// The optimizer steps of TensorFlow's sparse CPU kernels, on one row. As dense_formulas.h: the same Eigen expressions,
// so the same bits. Rows of one column go through other code in some of TensorFlow's kernels, and so here.
//
// A formula has kName, kSlots, kFlag, Names() and Step(p, g, n) as the dense ones, for the rows with a gradient. Those
// with kEveryRow have Decay(p, n), which comes first and is for all rows, and kFinish, whether Finish(p, n) follows on
// all rows. Wrong(): what TensorFlow's kernel refuses of its hyperparameters, in words; null: nothing.
#ifndef TF_BOOSTER_CC_TF_KERNELS_SPARSE_FORMULAS_H_
#define TF_BOOSTER_CC_TF_KERNELS_SPARSE_FORMULAS_H_

#include <algorithm>

#include "cc/core/optimizer/ftrl.h"
#include "cc/tf/kernels/dense_formulas.h"

namespace tf_booster {
namespace sparse {

using dense::Block;
using dense::ConstBlock;
using dense::ScalarNames;

struct RowsWithGradient {
  static constexpr bool kEveryRow = false;
  static constexpr const char* Wrong() { return nullptr; }
};
struct EveryRow {
  static constexpr bool kEveryRow = true;
  static constexpr const char* Wrong() { return nullptr; }
};

template <class T>
struct GradientDescent : RowsWithGradient, dense::GradientDescent<T> {
  using dense::GradientDescent<T>::GradientDescent;
};

template <class T>
struct Momentum : RowsWithGradient, dense::Momentum<T> {
  using dense::Momentum<T>::Momentum;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> v(p[0], n), a(p[1], n);
    ConstBlock<T> grad(g, n);
    const T lr = this->lr, momentum = this->momentum;
    a = a * a.constant(momentum) + grad;
    if (this->use_nesterov) {
      v -= grad.constant(lr) * grad + a.constant(lr) * a.constant(momentum) * a;
    } else {
      v -= a.constant(lr) * a;
    }
  }
};

template <class T>
struct KerasMomentum : RowsWithGradient, dense::KerasMomentum<T> {
  using dense::KerasMomentum<T>::KerasMomentum;
};

template <class T>
struct Adagrad : RowsWithGradient, dense::Adagrad<T> {
  using dense::Adagrad<T>::Adagrad;

  void Step(T* const* p, const T* g, int64_t n) const {
    if (n == 1) {
      if (this->update_slots) *p[1] += *g * *g;
      *p[0] -= this->lr * *g / Eigen::numext::sqrt(*p[1]);
      return;
    }
    Block<T> v(p[0], n), a(p[1], n);
    ConstBlock<T> grad(g, n);
    if (this->update_slots) a += grad.square();
    v -= grad.constant(this->lr) * grad * a.rsqrt();
  }
};

template <class T>
struct AdagradV2 : RowsWithGradient, dense::AdagradV2<T> {
  using dense::AdagradV2<T>::AdagradV2;
};

template <class T>
struct Adadelta : RowsWithGradient, dense::Adadelta<T> {
  using dense::Adadelta<T>::Adadelta;
};

// kShrinkage: FtrlV2.
template <class T, bool kShrinkage>
struct FtrlFormula : RowsWithGradient, dense::FtrlFormula<T, kShrinkage> {
  using Base = dense::FtrlFormula<T, kShrinkage>;
  explicit FtrlFormula(const Base& base) : Base(base) {}

  const char* Wrong() const {
    return WrongFtrlOptions<T>(
        {this->lr, this->l1, this->l2, this->l2_shrinkage, this->lr_power, this->multiply_linear_by_lr});
  }

  void Step(T* const* p, const T* g, int64_t n) const {
    if (n == 1) return StepOne(*p[0], *p[1], *p[2], *g);
    ConstBlock<T> grad(g, n);
    dense::WithPowers(p[1], g, n, this->lr_power, [&](const auto& power, const auto& new_power) {
      if constexpr (kShrinkage) {
        Write(p, n, grad + T(2) * this->l2_shrinkage * Block<T>(p[0], n), power, new_power);
      } else {
        Write(p, n, grad, power, new_power);
      }
    });
  }

 private:
  template <class Shrunk, class Power, class NewPower>
  void Write(T* const* p, int64_t n, const Shrunk& shrunk, const Power& power, const NewPower& new_power) const {
    Block<T> var(p[0], n), linear(p[2], n);
    const T lr = this->lr, l1 = this->l1, l2 = this->l2;
    if (this->multiply_linear_by_lr) {
      linear += shrunk * lr - (new_power - power) * var;
      auto clamped = linear.cwiseMin(l1 * lr).cwiseMax(-l1 * lr);
      var = (clamped - linear) / (new_power + linear.constant(T(2) * l2 * lr));
    } else {
      linear += shrunk - (new_power - power) / lr * var;
      auto clamped = linear.cwiseMin(l1).cwiseMax(-l1);
      var = (clamped - linear) / (new_power / var.constant(lr) + linear.constant(T(2) * l2));
    }
  }

  void StepOne(T& var, T& accum, T& linear, T grad) const {
    using Eigen::numext::pow;
    using Eigen::numext::sqrt;
    const T lr = this->lr, l1 = this->l1, l2 = this->l2, power = -this->lr_power;
    const T shrunk = kShrinkage ? grad + T(2) * this->l2_shrinkage * var : grad;
    const T new_accum = accum + grad * grad;
    const T growth = pow(new_accum, power) - pow(accum, power);
    const T root = this->lr_power == T(-0.5) ? sqrt(new_accum) : pow(new_accum, power);
    if (this->multiply_linear_by_lr) {
      linear = linear + shrunk * lr - growth * var;
      var = (std::max(std::min(linear, l1 * lr), -l1 * lr) - linear) / (root + T(2) * l2 * lr);
    } else {
      linear = linear + shrunk - growth / lr * var;
      var = (std::max(std::min(linear, l1), -l1) - linear) / (root / lr + T(2) * l2);
    }
    accum = new_accum;
  }
};

template <class T>
struct Ftrl : FtrlFormula<T, false> {
  static constexpr const char* kName = "Ftrl";
  static ScalarNames Names() { return dense::Ftrl<T>::Names(); }
  Ftrl(const T* s, bool flag) : FtrlFormula<T, false>(dense::Ftrl<T>(s, flag)) {}
};

template <class T>
struct FtrlV2 : FtrlFormula<T, true> {
  static constexpr const char* kName = "FtrlV2";
  static ScalarNames Names() { return dense::FtrlV2<T>::Names(); }
  FtrlV2(const T* s, bool flag) : FtrlFormula<T, true>(dense::FtrlV2<T>(s, flag)) {}
};

template <class T>
struct RMSProp : RowsWithGradient, dense::RMSProp<T> {
  using dense::RMSProp<T>::RMSProp;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), ms(p[1], n), mom(p[2], n);
    ConstBlock<T> grad(g, n);
    ms = ms * ms.constant(this->rho) + grad.square() * grad.constant(T(1) - this->rho);
    mom = mom * mom.constant(this->momentum) + (ms + ms.constant(this->epsilon)).rsqrt() * ms.constant(this->lr) * grad;
    var -= mom;
  }
};

template <class T>
struct CenteredRMSProp : RowsWithGradient, dense::CenteredRMSProp<T> {
  using dense::CenteredRMSProp<T>::CenteredRMSProp;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), mg(p[1], n), ms(p[2], n), mom(p[3], n);
    ConstBlock<T> grad(g, n);
    ms = ms * ms.constant(this->rho) + grad.square() * grad.constant(T(1) - this->rho);
    mg = mg * mg.constant(this->rho) + grad * grad.constant(T(1) - this->rho);
    auto variance = ms + ms.constant(this->epsilon) - mg.square();
    mom = mom * mom.constant(this->momentum) + variance.rsqrt() * ms.constant(this->lr) * grad;
    var -= mom;
  }
};

template <class T>
struct Adam : EveryRow {
  static constexpr const char* kName = "Adam";
  static constexpr int kSlots = 2;
  static constexpr const char* kFlag = "lazy";
  static constexpr bool kFinish = true;
  static ScalarNames Names() { return {"alpha", "beta1", "beta2", "epsilon"}; }
  Adam(const T* s, bool) : alpha(s[0]), beta1(s[1]), beta2(s[2]), epsilon(s[3]) {}
  T alpha, beta1, beta2, epsilon;

  void Decay(T* const* p, int64_t n) const {
    Block<T> m(p[1], n), v(p[2], n);
    m = m * beta1;
    v = v * beta2;
  }
  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> m(p[1], n), v(p[2], n);
    ConstBlock<T> grad(g, n);
    m += grad * (T(1) - beta1);
    v += grad.square() * (T(1) - beta2);
  }
  void Finish(T* const* p, int64_t n) const {
    Block<T> var(p[0], n), m(p[1], n), v(p[2], n);
    var -= m * alpha / (v.sqrt() + epsilon);
  }
};

template <class T>
struct KerasRMSProp : EveryRow {
  static constexpr const char* kName = "KerasRMSProp";
  static constexpr int kSlots = 1;
  static constexpr const char* kFlag = nullptr;
  static constexpr bool kFinish = false;
  static ScalarNames Names() { return {"lr", "rho", "epsilon"}; }
  KerasRMSProp(const T* s, bool) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}
  T lr, rho, epsilon;

  void Decay(T* const* p, int64_t n) const {
    Block<T> ms(p[1], n);
    ms = ms * rho;
  }
  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), ms(p[1], n);
    ConstBlock<T> grad(g, n);
    ms += grad.square() * (T(1) - rho);
    var -= grad * lr / (ms.sqrt() + epsilon);
  }
  void Finish(T* const*, int64_t) const {}
};

template <class T>
struct KerasCenteredRMSProp : EveryRow {
  static constexpr const char* kName = "KerasCenteredRMSProp";
  static constexpr int kSlots = 2;
  static constexpr const char* kFlag = nullptr;
  static constexpr bool kFinish = false;
  static ScalarNames Names() { return {"lr", "rho", "epsilon"}; }
  KerasCenteredRMSProp(const T* s, bool) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}
  T lr, rho, epsilon;

  void Decay(T* const* p, int64_t n) const {
    Block<T> mg(p[1], n), ms(p[2], n);
    mg = mg * rho;
    ms = ms * rho;
  }
  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), mg(p[1], n), ms(p[2], n);
    ConstBlock<T> grad(g, n);
    mg += grad * (T(1) - rho);
    ms += grad.square() * (T(1) - rho);
    var -= grad * lr / ((ms - mg.square()).sqrt() + epsilon);
  }
  void Finish(T* const*, int64_t) const {}
};

}  // namespace sparse
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_SPARSE_FORMULAS_H_
