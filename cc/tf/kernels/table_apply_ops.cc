// TfBoosterTableApplyAdagrad and its like.
#include "cc/tf/kernels/table_apply_op.h"
#include "cc/tf/kernels/table_apply_options.h"

namespace tf_booster {

#define REGISTER_APPLY(name) \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterTableApply" #name).Device(tensorflow::DEVICE_CPU), TableApplyOp<name##Apply>)

TFB_FOR_EACH_TABLE_APPLY(REGISTER_APPLY);

#undef REGISTER_APPLY

}  // namespace tf_booster
