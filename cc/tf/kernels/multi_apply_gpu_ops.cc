// TfBoosterMultiApplyAdam and its like on the GPU, for the types that the CPU has.
#ifdef TF_BOOSTER_CUDA

#include <vector>

#include "cc/core/optimizer/element_steps.h"
#include "cc/core/optimizer/multi_apply_gpu.h"
#include "cc/tf/kernels/core_type.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/multi_apply_op.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

// Formula: of the op on the CPU, for its names.
template <class T, template <class> class StepOf, template <class> class Formula>
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
    gpu::StepInputs<Number> inputs = {};
    for (int i = 0; i < Step::kScalars; ++i) inputs.scalars[i] = CoreNumbers<T>(ctx->input(first_scalar() + i));
    inputs.flag = flag_;
    std::vector<gpu::DenseJob<Step>> jobs(num_vars_);
    for (int i = 0; i < num_vars_; ++i) {
      for (int k = 0; k <= Step::kSlots; ++k) {
        jobs[i].arrays[k] = reinterpret_cast<Number*>(vars.data<T>(k * num_vars_ + i));
      }
      jobs[i].grad = is_packed(ctx) ? CoreNumbers<T>(ctx->input(first_tensor())) + blocks.first_element[i]
                                    : CoreNumbers<T>(ctx->input(first_tensor() + i));
      jobs[i].size = blocks.first_element[i + 1] - blocks.first_element[i];
    }
    // Two handles of one Variable: one update after the other, as TensorFlow's ops would.
    const bool twice = vars.HasDuplicates(first_scalar());
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::MultiApplyAsync(jobs, inputs, twice, GpuStream(ctx))));
  }

 private:
  using Number = typename CoreType<T>::Type;
  using Step = StepOf<Number>;
  static_assert(Step::kSlots == Formula<T>::kSlots && sizeof(Number) == sizeof(T), "");
};

#define REGISTER_TYPE(name, T, slots)                                                                                  \
  REGISTER_KERNEL_BUILDER(                                                                                             \
      Name("TfBoosterMultiApply" #name).Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T").HostMemory("var") slots, \
      MultiApplyGpuOp<T, element::name, dense::name>)
#define REGISTER_WIDE(name, slots)   \
  REGISTER_TYPE(name, float, slots); \
  REGISTER_TYPE(name, double, slots)
#define REGISTER(name, slots)              \
  REGISTER_WIDE(name, slots);              \
  REGISTER_TYPE(name, Eigen::half, slots); \
  REGISTER_TYPE(name, Eigen::bfloat16, slots)

REGISTER(GradientDescent, );
REGISTER_WIDE(ProximalGradientDescent, );
REGISTER(Momentum, .HostMemory("accum"));
REGISTER(KerasMomentum, .HostMemory("accum"));
REGISTER(Adagrad, .HostMemory("accum"));
REGISTER(AdagradV2, .HostMemory("accum"));
REGISTER_WIDE(ProximalAdagrad, .HostMemory("accum"));
REGISTER(Adadelta, .HostMemory("accum").HostMemory("accum_update"));
REGISTER(Adam, .HostMemory("m").HostMemory("v"));
REGISTER(AdamWithAmsgrad, .HostMemory("m").HostMemory("v").HostMemory("vhat"));
REGISTER_WIDE(AdaMax, .HostMemory("m").HostMemory("v"));
REGISTER_TYPE(AdaMax, Eigen::half, .HostMemory("m").HostMemory("v"));
REGISTER(Ftrl, .HostMemory("accum").HostMemory("linear"));
REGISTER(FtrlV2, .HostMemory("accum").HostMemory("linear"));
REGISTER(RMSProp, .HostMemory("ms").HostMemory("mom"));
REGISTER(CenteredRMSProp, .HostMemory("mg").HostMemory("ms").HostMemory("mom"));
REGISTER(MovingAverage, );
#undef REGISTER
#undef REGISTER_WIDE
#undef REGISTER_TYPE

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
