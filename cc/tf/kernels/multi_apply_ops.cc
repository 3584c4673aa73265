// TfBoosterMultiApplyAdam and its like on the CPU.
#include "cc/tf/kernels/multi_apply_op.h"

namespace tf_booster {

#define REGISTER_MULTI_APPLY_TYPE(name, T)                                                                         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiApply" #name).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          MultiApplyOp<T, dense::name>)

// The dtypes that TensorFlow's own kernels have, so that there is something to be equal to.
#define REGISTER_MULTI_APPLY_WIDE(name)   \
  REGISTER_MULTI_APPLY_TYPE(name, float); \
  REGISTER_MULTI_APPLY_TYPE(name, double)

#define REGISTER_MULTI_APPLY(name)              \
  REGISTER_MULTI_APPLY_TYPE(name, float);       \
  REGISTER_MULTI_APPLY_TYPE(name, double);      \
  REGISTER_MULTI_APPLY_TYPE(name, Eigen::half); \
  REGISTER_MULTI_APPLY_TYPE(name, Eigen::bfloat16)

REGISTER_MULTI_APPLY(GradientDescent);
REGISTER_MULTI_APPLY_WIDE(ProximalGradientDescent);
REGISTER_MULTI_APPLY(Momentum);
REGISTER_MULTI_APPLY(KerasMomentum);
REGISTER_MULTI_APPLY(Adagrad);
REGISTER_MULTI_APPLY(AdagradV2);
REGISTER_MULTI_APPLY_WIDE(ProximalAdagrad);
REGISTER_MULTI_APPLY(Adadelta);
REGISTER_MULTI_APPLY(Adam);
REGISTER_MULTI_APPLY(AdamWithAmsgrad);
REGISTER_MULTI_APPLY_WIDE(AdaMax);
REGISTER_MULTI_APPLY_TYPE(AdaMax, Eigen::half);
REGISTER_MULTI_APPLY(Ftrl);
REGISTER_MULTI_APPLY(FtrlV2);
REGISTER_MULTI_APPLY(RMSProp);
REGISTER_MULTI_APPLY(CenteredRMSProp);
REGISTER_MULTI_APPLY(MovingAverage);

#undef REGISTER_MULTI_APPLY
#undef REGISTER_MULTI_APPLY_WIDE
#undef REGISTER_MULTI_APPLY_TYPE

}  // namespace tf_booster
