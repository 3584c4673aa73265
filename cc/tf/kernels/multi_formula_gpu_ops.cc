// TfBoosterMultiApplyFormula on the GPU, for the types that the CPU has.
#ifdef TF_BOOSTER_CUDA

#include <vector>

#include "cc/core/optimizer/multi_formula_gpu.h"
#include "cc/tf/kernels/core_type.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/multi_formula_op.h"

namespace tf_booster {
namespace {

template <class T>
class MultiFormulaGpuOp final : public MultiFormulaOpBase {
 public:
  explicit MultiFormulaGpuOp(tensorflow::OpKernelConstruction* ctx) : MultiFormulaOpBase(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckScalars(ctx));
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(ctx, CheckShapes(ctx, vars));
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx, CopyOnCard));
    gpu::FormulaInputs<Number> inputs = {formula_, {}};
    for (int i = 0; i < formula_.numbers; ++i) inputs.numbers[i] = CoreNumbers<T>(ctx->input(first_scalar() + i));
    std::vector<gpu::FormulaJob<Number>> jobs(num_vars_);
    for (int i = 0; i < num_vars_; ++i) {
      for (int k = 0; k < formula_.arrays; ++k) {
        jobs[i].arrays[k] = reinterpret_cast<Number*>(vars.data<T>(k * num_vars_ + i));
      }
      for (int k = 0; k < formula_.tensors; ++k) jobs[i].tensors[k] = CoreNumbers<T>(tensor(ctx, k, i));
      jobs[i].size = vars.shape(i).num_elements();
    }
    // Two handles of one Variable: one update after the other, as TensorFlow's ops would.
    const bool twice = vars.HasDuplicates(first_scalar());
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::MultiFormulaAsync(jobs, inputs, twice, GpuStream(ctx))));
  }

 private:
  using Number = typename CoreType<T>::Type;
};

#define REGISTER(T)                                                                                               \
  REGISTER_KERNEL_BUILDER(                                                                                        \
      Name("TfBoosterMultiApplyFormula").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T").HostMemory("var"), \
      MultiFormulaGpuOp<T>)
REGISTER(float);
REGISTER(double);
REGISTER(Eigen::half);
REGISTER(Eigen::bfloat16);
#undef REGISTER

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
