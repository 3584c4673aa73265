#include "cc/tf/kernels/own_variable_op.h"

namespace tf_booster {

REGISTER_KERNEL_BUILDER(Name("TfBoosterOwnVariable").Device(tensorflow::DEVICE_CPU),
                        OwnVariableOp<LockedVariables::CopyOnHost>);

}  // namespace tf_booster
