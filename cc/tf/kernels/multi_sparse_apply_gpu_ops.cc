// TfBoosterMultiSparseApplyAdam and its like on the GPU.
//
// Rows of duplicates are summed in an order that the ids alone decide; see cc/core/gpu/row_groups.h. An index outside
// its Variable is passed over: the card cannot raise an error without a wait.
#ifdef TF_BOOSTER_CUDA

#include <limits>
#include <type_traits>
#include <vector>

#include "cc/core/optimizer/multi_sparse_apply_gpu.h"
#include "cc/core/optimizer/row_steps.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/multi_sparse_apply_op.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Formula: of the op on the CPU, for its names.
template <class T, class Index, template <class> class Step, template <class> class Formula>
class MultiSparseApplyGpuOp final : public MultiSparseApplyOpBase {
 public:
  explicit MultiSparseApplyGpuOp(OpKernelConstruction* ctx)
      : MultiSparseApplyOpBase(ctx, Formula<T>::kSlots, Formula<T>::Names(), Formula<T>::kFlag) {}

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckScalars(ctx));
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    std::vector<Table> tables;
    OP_REQUIRES_OK(ctx, FindTables(ctx, vars, &tables));
    std::vector<gpu::RowNumbers<Index>> numbers;
    std::vector<gpu::JobsOfNumbers> jobs_of;
    for (const Table& table : tables) {
      const Tensor& indices = ctx->input(first_tensor() + table.first_var);
      numbers.push_back({indices.flat<Index>().data(), indices.NumElements(), table.rule.rows,
                         table.rule.mod ? static_cast<int32_t>(table.rule.parts) : 1});
      jobs_of.push_back({static_cast<size_t>(table.first_var), table.rule.Begin(table.first_part), {}});
      for (int p = 0; p < table.num_vars; ++p) {
        jobs_of.back().parts.push_back(table.rule.Size(table.first_part + p));
      }
    }
    const int64_t total = gpu::TotalSize(numbers);
    OP_REQUIRES(ctx, total <= std::numeric_limits<int32_t>::max(),
                tensorflow::errors::InvalidArgument(Where(), "there are ", total,
                                                    " indices; the GPU takes 2147483647 at most"));
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx, CopyOnCard));
    vars.CopyOnRead();
    gpu::StepInputs<T> inputs = {};
    for (int i = 0; i < Step<T>::kScalars; ++i) inputs.scalars[i] = ctx->input(first_scalar() + i).flat<T>().data();
    inputs.flag = flag_;
    std::vector<gpu::SparseJob<Step<T>>> jobs(num_vars_);
    for (int i = 0; i < num_vars_; ++i) {
      for (int k = 0; k <= Step<T>::kSlots; ++k) jobs[i].arrays[k] = vars.data<T>(k * num_vars_ + i);
      jobs[i].grads = ctx->input(first_tensor() + num_vars_ + i).flat<T>().data();
    }
    for (const Table& table : tables) {
      for (int p = 0; p < table.num_vars; ++p) jobs[table.first_var + p].dim = table.dim;
    }
    // Steps of gradient descent add up, so that their sum is one step, and a frequent row need not wait for itself.
    const bool sums = sum_duplicates_ || std::is_same_v<Step<T>, row::GradientDescent<T>>;
    const gpu::SparseRule rule = {Step<T>::kEveryRow && !flag_, sums, vars.HasDuplicates(first_scalar())};
    Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateScratch(ctx, gpu::SparseScratchBytes(jobs, numbers, jobs_of, rule), &scratch));
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::MultiSparseApplyAsync(jobs, numbers, jobs_of, inputs, rule,
                                                                    scratch.data(), GpuStream(ctx))));
  }

  static_assert(Step<T>::kSlots == Formula<T>::kSlots && Step<T>::kEveryRow == Formula<T>::kEveryRow, "");
};

#define REGISTER_TYPES(name, T, Index, slots)                     \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiSparseApply" #name) \
                              .Device(tensorflow::DEVICE_GPU)     \
                              .TypeConstraint<T>("T")             \
                              .TypeConstraint<Index>("Tindices")  \
                              .HostMemory("var") slots,           \
                          MultiSparseApplyGpuOp<T, Index, row::name, sparse::name>)
#define REGISTER(name, slots)                   \
  REGISTER_TYPES(name, float, int32_t, slots);  \
  REGISTER_TYPES(name, float, int64_t, slots);  \
  REGISTER_TYPES(name, double, int32_t, slots); \
  REGISTER_TYPES(name, double, int64_t, slots)

REGISTER(GradientDescent, );
REGISTER(Momentum, .HostMemory("accum"));
REGISTER(KerasMomentum, .HostMemory("accum"));
REGISTER(Adagrad, .HostMemory("accum"));
REGISTER(AdagradV2, .HostMemory("accum"));
REGISTER(Adadelta, .HostMemory("accum").HostMemory("accum_update"));
REGISTER(Ftrl, .HostMemory("accum").HostMemory("linear"));
REGISTER(FtrlV2, .HostMemory("accum").HostMemory("linear"));
REGISTER(RMSProp, .HostMemory("ms").HostMemory("mom"));
REGISTER(CenteredRMSProp, .HostMemory("mg").HostMemory("ms").HostMemory("mom"));
REGISTER(Adam, .HostMemory("m").HostMemory("v"));
REGISTER(KerasRMSProp, .HostMemory("ms"));
REGISTER(KerasCenteredRMSProp, .HostMemory("mg").HostMemory("ms"));
#undef REGISTER
#undef REGISTER_TYPES

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
