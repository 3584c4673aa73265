// TfBoosterOwnVariable on the GPU.
#ifdef TF_BOOSTER_CUDA

#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/own_variable_op.h"

namespace tf_booster {

REGISTER_KERNEL_BUILDER(Name("TfBoosterOwnVariable").Device(tensorflow::DEVICE_GPU).HostMemory("resource"),
                        OwnVariableOp<CopyOnCard>);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
