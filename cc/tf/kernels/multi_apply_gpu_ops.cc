// TfBoosterMultiApplyAdam and its like on the GPU: float32 and float64. Half and bfloat16 stay TensorFlow's.
#ifdef TF_BOOSTER_CUDA

#include <vector>

#include "cc/core/optimizer/element_steps.h"
#include "cc/core/optimizer/multi_apply_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/multi_apply_op.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

// Formula: of the op on the CPU, for its names.
template <class T, template <class> class Step, template <class> class Formula>
class MultiApplyGpuOp final : public MultiApplyOpBase {
 public:
  explicit MultiApplyGpuOp(OpKernelConstruction* ctx)
      : MultiApplyOpBase(ctx, Formula<T>::kSlots, Formula<T>::Names(), Formula<T>::kFlag) {}

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckScalars(ctx));
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    Blocks blocks;
    OP_REQUIRES_OK(ctx, CheckShapes(ctx, vars, &blocks));
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx, CopyOnCard));
    gpu::StepInputs<T> inputs = {};
    for (int i = 0; i < Step<T>::kScalars; ++i) inputs.scalars[i] = ctx->input(first_scalar() + i).flat<T>().data();
    inputs.flag = flag_;
    std::vector<gpu::DenseJob<Step<T>>> jobs(num_vars_);
    for (int i = 0; i < num_vars_; ++i) {
      for (int k = 0; k <= Step<T>::kSlots; ++k) jobs[i].arrays[k] = vars.data<T>(k * num_vars_ + i);
      jobs[i].grad = is_packed(ctx) ? ctx->input(first_tensor()).flat<T>().data() + blocks.first_element[i]
                                    : ctx->input(first_tensor() + i).flat<T>().data();
      jobs[i].size = blocks.first_element[i + 1] - blocks.first_element[i];
    }
    // Two handles of one Variable: one update after the other, as TensorFlow's ops would.
    const bool twice = vars.HasDuplicates(first_scalar());
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::MultiApplyAsync(jobs, inputs, twice, GpuStream(ctx))));
  }

  static_assert(Step<T>::kSlots == Formula<T>::kSlots, "");
};

#define REGISTER_TYPE(name, T, slots)                                                                                  \
  REGISTER_KERNEL_BUILDER(                                                                                             \
      Name("TfBoosterMultiApply" #name).Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T").HostMemory("var") slots, \
      MultiApplyGpuOp<T, element::name, dense::name>)
#define REGISTER(name, slots)        \
  REGISTER_TYPE(name, float, slots); \
  REGISTER_TYPE(name, double, slots)

REGISTER(GradientDescent, );
REGISTER(ProximalGradientDescent, );
REGISTER(Momentum, .HostMemory("accum"));
REGISTER(KerasMomentum, .HostMemory("accum"));
REGISTER(Adagrad, .HostMemory("accum"));
REGISTER(AdagradV2, .HostMemory("accum"));
REGISTER(ProximalAdagrad, .HostMemory("accum"));
REGISTER(Adadelta, .HostMemory("accum").HostMemory("accum_update"));
REGISTER(Adam, .HostMemory("m").HostMemory("v"));
REGISTER(AdamWithAmsgrad, .HostMemory("m").HostMemory("v").HostMemory("vhat"));
REGISTER(AdaMax, .HostMemory("m").HostMemory("v"));
REGISTER(Ftrl, .HostMemory("accum").HostMemory("linear"));
REGISTER(FtrlV2, .HostMemory("accum").HostMemory("linear"));
REGISTER(RMSProp, .HostMemory("ms").HostMemory("mom"));
REGISTER(CenteredRMSProp, .HostMemory("mg").HostMemory("ms").HostMemory("mom"));
#undef REGISTER
#undef REGISTER_TYPE

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
