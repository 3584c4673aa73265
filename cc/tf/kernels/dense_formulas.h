// The optimizer steps of TensorFlow's dense CPU kernels, on one block of a Variable.
//
// Each formula is the Eigen expression that the kernel of ResourceApply<kName> evaluates, with operations in the same
// order, so that the bits are the same. A block starts at a multiple of kBlock elements of its Variable: which elements
// go through a packet (and so through Eigen's approximate reciprocal square root) is then as in TensorFlow, whose
// blocks start at multiples of a packet too. A step of several expressions is done block by block, while the block is
// in the cache.
//
// A formula has kName, kSlots, kFlag (the op's bool attribute or null), Names() (its scalars, in the order of the op's
// inputs), a constructor from (scalars, flag), and Step(p, g, n): p[0] is the Variable, p[1…] its slots.
#ifndef TF_BOOSTER_CC_TF_KERNELS_DENSE_FORMULAS_H_
#define TF_BOOSTER_CC_TF_KERNELS_DENSE_FORMULAS_H_

#include <cstdint>
#include <vector>

#include "unsupported/Eigen/CXX11/Tensor"

namespace tf_booster {
namespace dense {

// 16 KiB of floats: the four or five arrays of a step fit a second-level cache of 256 KiB.
inline constexpr int64_t kBlock = 4096;

using ScalarNames = std::vector<const char*>;

template <class T>
using Block = Eigen::TensorMap<Eigen::Tensor<T, 1, Eigen::RowMajor, Eigen::Index>>;
template <class T>
using ConstBlock = Eigen::TensorMap<Eigen::Tensor<const T, 1, Eigen::RowMajor, Eigen::Index>>;

template <class T>
struct GradientDescent {
  static constexpr const char* kName = "GradientDescent";
  static constexpr int kSlots = 0;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"lr"}; }
  GradientDescent(const T* s, bool) : lr(s[0]) {}
  T lr;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n);
    ConstBlock<T> grad(g, n);
    var -= grad * lr;
  }
};

template <class T>
struct ProximalGradientDescent {
  static constexpr const char* kName = "ProximalGradientDescent";
  static constexpr int kSlots = 0;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"lr", "l1", "l2"}; }
  ProximalGradientDescent(const T* s, bool) : lr(s[0]), l1(s[1]), l2(s[2]) {}
  T lr, l1, l2;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n);
    ConstBlock<T> grad(g, n);
    const T zero(0), one(1);
    var -= grad * lr;
    if (l1 > zero) {
      var =
          var.sign() * (var.abs() - var.constant(lr * l1)).cwiseMax(zero) / (var.constant(one) + var.constant(l2 * lr));
    } else {
      var = var / (var.constant(one) + var.constant(l2 * lr));
    }
  }
};

template <class T>
struct Momentum {
  static constexpr const char* kName = "Momentum";
  static constexpr int kSlots = 1;
  static constexpr const char* kFlag = "use_nesterov";
  static ScalarNames Names() { return {"lr", "momentum"}; }
  Momentum(const T* s, bool flag) : lr(s[0]), momentum(s[1]), use_nesterov(flag) {}
  T lr, momentum;
  bool use_nesterov;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), accum(p[1], n);
    ConstBlock<T> grad(g, n);
    accum = accum * momentum + grad;
    if (use_nesterov) {
      var -= grad * lr + accum * momentum * lr;
    } else {
      var -= accum * lr;
    }
  }
};

template <class T>
struct KerasMomentum {
  static constexpr const char* kName = "KerasMomentum";
  static constexpr int kSlots = 1;
  static constexpr const char* kFlag = "use_nesterov";
  static ScalarNames Names() { return {"lr", "momentum"}; }
  KerasMomentum(const T* s, bool flag) : lr(s[0]), momentum(s[1]), use_nesterov(flag) {}
  T lr, momentum;
  bool use_nesterov;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), accum(p[1], n);
    ConstBlock<T> grad(g, n);
    accum = accum * momentum - grad * lr;
    if (use_nesterov) {
      var += accum * momentum - grad * lr;
    } else {
      var += accum;
    }
  }
};

template <class T>
struct Adagrad {
  static constexpr const char* kName = "Adagrad";
  static constexpr int kSlots = 1;
  static constexpr const char* kFlag = "update_slots";
  static ScalarNames Names() { return {"lr"}; }
  Adagrad(const T* s, bool flag) : lr(s[0]), update_slots(flag) {}
  T lr;
  bool update_slots;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), accum(p[1], n);
    ConstBlock<T> grad(g, n);
    if (update_slots) accum += grad.square();
    var -= grad * lr * accum.rsqrt();
  }
};

template <class T>
struct AdagradV2 {
  static constexpr const char* kName = "AdagradV2";
  static constexpr int kSlots = 1;
  static constexpr const char* kFlag = "update_slots";
  static ScalarNames Names() { return {"lr", "epsilon"}; }
  AdagradV2(const T* s, bool flag) : lr(s[0]), epsilon(s[1]), update_slots(flag) {}
  T lr, epsilon;
  bool update_slots;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), accum(p[1], n);
    ConstBlock<T> grad(g, n);
    if (update_slots) accum += grad.square();
    var -= grad * lr / (accum.sqrt() + epsilon);
  }
};

template <class T>
struct ProximalAdagrad {
  static constexpr const char* kName = "ProximalAdagrad";
  static constexpr int kSlots = 1;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"lr", "l1", "l2"}; }
  ProximalAdagrad(const T* s, bool) : lr(s[0]), l1(s[1]), l2(s[2]) {}
  T lr, l1, l2;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), accum(p[1], n);
    ConstBlock<T> grad(g, n);
    const T zero(0), one(1);
    accum += grad.square();
    auto rate = accum.constant(lr) * accum.rsqrt();
    var -= grad * rate;
    if (l1 > zero) {
      var = var.sign() * (var.abs() - rate * var.constant(l1)).cwiseMax(zero) /
            (var.constant(one) + var.constant(l2) * rate);
    } else {
      var = var / (var.constant(one) + var.constant(l2) * rate);
    }
  }
};

template <class T>
struct Adadelta {
  static constexpr const char* kName = "Adadelta";
  static constexpr int kSlots = 2;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"lr", "rho", "epsilon"}; }
  Adadelta(const T* s, bool) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}
  T lr, rho, epsilon;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), accum(p[1], n), accum_update(p[2], n);
    ConstBlock<T> grad(g, n);
    accum = accum * rho + grad.square() * (T(1) - rho);
    const auto update = (accum_update + epsilon).sqrt() * (accum + epsilon).rsqrt() * grad;
    var -= update * lr;
    accum_update = accum_update * rho + update.square() * (T(1) - rho);
  }
};

template <class T>
struct Adam {
  static constexpr const char* kName = "Adam";
  static constexpr int kSlots = 2;
  static constexpr const char* kFlag = "use_nesterov";
  static ScalarNames Names() { return {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"}; }
  Adam(const T* s, bool flag)
      : alpha(s[2] * Eigen::numext::sqrt(T(1) - s[1]) / (T(1) - s[0])),
        beta1(s[3]),
        beta2(s[4]),
        epsilon(s[5]),
        use_nesterov(flag) {}
  T alpha, beta1, beta2, epsilon;  // alpha: the learning rate with the bias correction.
  bool use_nesterov;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), m(p[1], n), v(p[2], n);
    ConstBlock<T> grad(g, n);
    m += (grad - m) * (T(1) - beta1);
    v += (grad.square() - v) * (T(1) - beta2);
    if (use_nesterov) {
      var -= ((grad * (T(1) - beta1) + beta1 * m) * alpha) / (v.sqrt() + epsilon);
    } else {
      var -= (m * alpha) / (v.sqrt() + epsilon);
    }
  }
};

template <class T>
struct AdamWithAmsgrad {
  static constexpr const char* kName = "AdamWithAmsgrad";
  static constexpr int kSlots = 3;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return Adam<T>::Names(); }
  AdamWithAmsgrad(const T* s, bool) : adam(s, false) {}
  Adam<T> adam;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), m(p[1], n), v(p[2], n), vhat(p[3], n);
    ConstBlock<T> grad(g, n);
    m += (grad - m) * (T(1) - adam.beta1);
    v += (grad.square() - v) * (T(1) - adam.beta2);
    vhat = vhat.cwiseMax(v);
    var -= (m * adam.alpha) / (vhat.sqrt() + adam.epsilon);
  }
};

template <class T>
struct AdaMax {
  static constexpr const char* kName = "AdaMax";
  static constexpr int kSlots = 2;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"beta1_power", "lr", "beta1", "beta2", "epsilon"}; }
  AdaMax(const T* s, bool) : beta1_power(s[0]), lr(s[1]), beta1(s[2]), beta2(s[3]), epsilon(s[4]) {}
  T beta1_power, lr, beta1, beta2, epsilon;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), m(p[1], n), v(p[2], n);
    ConstBlock<T> grad(g, n);
    m += (grad - m) * (T(1) - beta1);
    v = (beta2 * v).cwiseMax(grad.abs());
    var -= lr / (T(1) - beta1_power) * (m / (v + epsilon));
  }
};

// Calls write(power, new_power) with the accumulator to the power of -lr_power, before and after it takes the gradient
// in: expressions, so it takes it in afterwards.
template <class T, class WriteFn>
void WithPowers(T* accumulator, const T* g, int64_t n, T lr_power, const WriteFn& write) {
  Block<T> accum(accumulator, n);
  ConstBlock<T> grad(g, n);
  auto new_accum = accum + grad.square();
  if (lr_power == T(-0.5)) {
    write(accum.sqrt(), new_accum.sqrt());
  } else {
    write(accum.pow(-lr_power), new_accum.pow(-lr_power));
  }
  accum += grad.square();
}

// kShrinkage: FtrlV2, whose gradient for the linear slot carries the l2 shrinkage.
template <class T, bool kShrinkage>
struct FtrlFormula {
  static constexpr int kSlots = 2;
  static constexpr const char* kFlag = "multiply_linear_by_lr";
  T lr, l1, l2, l2_shrinkage, lr_power;
  bool multiply_linear_by_lr;

  void Step(T* const* p, const T* g, int64_t n) const {
    ConstBlock<T> grad(g, n);
    WithPowers(p[1], g, n, lr_power, [&](const auto& power, const auto& new_power) {
      if constexpr (kShrinkage) {
        Write(p, n, grad + T(2) * l2_shrinkage * Block<T>(p[0], n), power, new_power);
      } else {
        Write(p, n, grad, power, new_power);
      }
    });
  }

 private:
  template <class Shrunk, class Power, class NewPower>
  void Write(T* const* p, int64_t n, const Shrunk& shrunk, const Power& power, const NewPower& new_power) const {
    Block<T> var(p[0], n), linear(p[2], n);
    const T zero(0);
    if (multiply_linear_by_lr) {
      linear += shrunk * lr - (new_power - power) * var;
      const T limit = l1 * lr;
      auto y = new_power + linear.constant(T(2) * l2 * lr);
      if constexpr (kShrinkage) {
        auto x = linear.constant(limit) * linear.sign() - linear;
        var = (linear.abs() > linear.constant(limit)).select(x / y, var.constant(zero));
      } else {
        auto x = linear.constant(l1) * lr * linear.sign() - linear;
        var = (linear.abs() > linear.constant(limit)).select(x / y, var.constant(zero));
      }
    } else {
      linear += shrunk - (new_power - power) / lr * var;
      auto x = linear.constant(l1) * linear.sign() - linear;
      auto y = new_power / var.constant(lr) + linear.constant(T(2) * l2);
      var = (linear.abs() > linear.constant(l1)).select(x / y, var.constant(zero));
    }
  }
};

template <class T>
struct Ftrl : FtrlFormula<T, false> {
  static constexpr const char* kName = "Ftrl";
  static ScalarNames Names() { return {"lr", "l1", "l2", "lr_power"}; }
  Ftrl(const T* s, bool flag) : FtrlFormula<T, false>{s[0], s[1], s[2], T(0), s[3], flag} {}
};

template <class T>
struct FtrlV2 : FtrlFormula<T, true> {
  static constexpr const char* kName = "FtrlV2";
  static ScalarNames Names() { return {"lr", "l1", "l2", "l2_shrinkage", "lr_power"}; }
  FtrlV2(const T* s, bool flag) : FtrlFormula<T, true>{s[0], s[1], s[2], s[3], s[4], flag} {}
};

template <class T>
struct RMSProp {
  static constexpr const char* kName = "RMSProp";
  static constexpr int kSlots = 2;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"lr", "rho", "momentum", "epsilon"}; }
  RMSProp(const T* s, bool) : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  T lr, rho, momentum, epsilon;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), ms(p[1], n), mom(p[2], n);
    ConstBlock<T> grad(g, n);
    ms += (grad.square() - ms) * (T(1) - rho);
    mom = mom * momentum + (grad * lr) / (ms + epsilon).sqrt();
    var -= mom;
  }
};

template <class T>
struct CenteredRMSProp {
  static constexpr const char* kName = "CenteredRMSProp";
  static constexpr int kSlots = 3;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"lr", "rho", "momentum", "epsilon"}; }
  CenteredRMSProp(const T* s, bool) : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  T lr, rho, momentum, epsilon;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n), mg(p[1], n), ms(p[2], n), mom(p[3], n);
    ConstBlock<T> grad(g, n);
    ms += (grad.square() - ms) * (T(1) - rho);
    mg += (grad - mg) * (T(1) - rho);
    auto variance = (ms - mg.square()) + epsilon;
    mom = mom * momentum + (grad * lr) / variance.sqrt();
    var -= mom;
  }
};

// What AssignSub(var, (var - value) * rate) does, the value in the gradient's place: a moving average of decay 1 -
// rate.
template <class T>
struct MovingAverage {
  static constexpr const char* kName = "MovingAverage";
  static constexpr int kSlots = 0;
  static constexpr const char* kFlag = nullptr;
  static ScalarNames Names() { return {"rate"}; }
  MovingAverage(const T* s, bool) : rate(s[0]) {}
  T rate;

  void Step(T* const* p, const T* g, int64_t n) const {
    Block<T> var(p[0], n);
    ConstBlock<T> value(g, n);
    var -= (var - value) * rate;
  }
};

}  // namespace dense
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_DENSE_FORMULAS_H_
