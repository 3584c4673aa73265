// TfBoosterTableApplyAdagrad and its like.
#include "cc/tf/kernels/table_apply_op.h"
#include "cc/tf/kernels/table_apply_options.h"

namespace tf_booster {

#define REGISTER_APPLY(name) \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterTableApply" #name).Device(tensorflow::DEVICE_CPU), TableApplyOp<name##Apply>)

REGISTER_APPLY(GradientDescent);
REGISTER_APPLY(Momentum);
REGISTER_APPLY(KerasMomentum);
REGISTER_APPLY(Adagrad);
REGISTER_APPLY(AdagradV2);
REGISTER_APPLY(Adam);
REGISTER_APPLY(Ftrl);
REGISTER_APPLY(RMSProp);
REGISTER_APPLY(CenteredRMSProp);

#undef REGISTER_APPLY

}  // namespace tf_booster
