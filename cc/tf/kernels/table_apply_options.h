// The hyperparameters of each TfBoosterTableApply… op, in the order of its inputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OPTIONS_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OPTIONS_H_

#include "cc/core/optimizer/row_optimizer.h"

namespace tf_booster {

struct GradientDescentApply {
  using Options = GradientDescentOptions;
  static constexpr const char* kOptimizer = "sgd";
  template <class V>
  static void Visit(Options& o, V&& visit) {
    visit("lr", o.lr);
  }
};

template <class O>
struct MomentumLikeApply {
  using Options = O;
  template <class V>
  static void Visit(Options& o, V&& visit) {
    visit("lr", o.lr);
    visit("momentum", o.momentum);
    visit("use_nesterov", o.use_nesterov);
  }
};

struct MomentumApply : MomentumLikeApply<MomentumOptions> {
  static constexpr const char* kOptimizer = "momentum";
};

struct KerasMomentumApply : MomentumLikeApply<KerasMomentumOptions> {
  static constexpr const char* kOptimizer = "keras_momentum";
};

struct AdagradApply {
  using Options = AdagradOptions;
  static constexpr const char* kOptimizer = "adagrad";
  template <class V>
  static void Visit(Options& o, V&& visit) {
    visit("lr", o.lr);
    visit("update_slots", o.update_slots);
  }
};

struct AdagradV2Apply {
  using Options = AdagradV2Options;
  static constexpr const char* kOptimizer = "adagrad_v2";
  template <class V>
  static void Visit(Options& o, V&& visit) {
    visit("lr", o.lr);
    visit("epsilon", o.epsilon);
    visit("update_slots", o.update_slots);
  }
};

struct AdamApply {
  using Options = AdamOptions;
  static constexpr const char* kOptimizer = "adam";
  template <class V>
  static void Visit(Options& o, V&& visit) {
    visit("beta1_power", o.beta1_power);
    visit("beta2_power", o.beta2_power);
    visit("lr", o.lr);
    visit("beta1", o.beta1);
    visit("beta2", o.beta2);
    visit("epsilon", o.epsilon);
    visit("use_nesterov", o.use_nesterov);
  }
};

struct FtrlApply {
  using Options = FtrlOptions;
  static constexpr const char* kOptimizer = "ftrl";
  template <class V>
  static void Visit(Options& o, V&& visit) {
    visit("lr", o.lr);
    visit("l1", o.l1);
    visit("l2", o.l2);
    visit("l2_shrinkage", o.l2_shrinkage);
    visit("lr_power", o.lr_power);
    visit("multiply_linear_by_lr", o.multiply_linear_by_lr);
  }
};

template <class O>
struct RMSPropLikeApply {
  using Options = O;
  template <class V>
  static void Visit(Options& o, V&& visit) {
    visit("lr", o.lr);
    visit("rho", o.rho);
    visit("momentum", o.momentum);
    visit("epsilon", o.epsilon);
    visit("epsilon_outside_sqrt", o.epsilon_outside_sqrt);
  }
};

struct RMSPropApply : RMSPropLikeApply<RMSPropOptions> {
  static constexpr const char* kOptimizer = "rmsprop";
};

struct CenteredRMSPropApply : RMSPropLikeApply<CenteredRMSPropOptions> {
  static constexpr const char* kOptimizer = "centered_rmsprop";
};

// REGISTER(name) for each of them.
#define TFB_FOR_EACH_TABLE_APPLY(REGISTER) \
  REGISTER(GradientDescent);               \
  REGISTER(Momentum);                      \
  REGISTER(KerasMomentum);                 \
  REGISTER(Adagrad);                       \
  REGISTER(AdagradV2);                     \
  REGISTER(Adam);                          \
  REGISTER(Ftrl);                          \
  REGISTER(RMSProp);                       \
  REGISTER(CenteredRMSProp)

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OPTIONS_H_
