// Sparse updates that TensorFlow has no GPU kernel for, as kernels of its own ops: ResourceSparseApplyMomentum,
// …RMSProp, …CenteredRMSProp, of float32. Without them TensorFlow keeps the Variable, its slots and every lookup of it
// on the host.
#ifdef TF_BOOSTER_CUDA

#include <iterator>

#include "cc/core/optimizer/sparse_apply_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/variable_access.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

// What follows the Variables in the op's inputs: scalars, then grad and indices, but for Momentum's last scalar.
struct MomentumOp {
  using Inputs = gpu::MomentumInputs;
  static constexpr int kSlots = 1, kGrad = 3, kScalars[] = {2, 5};
  bool use_nesterov = false;

  TfStatus Init(OpKernelConstruction* ctx) { return ctx->GetAttr("use_nesterov", &use_nesterov); }
  Inputs Make(const float* const* scalars) const { return {scalars[0], scalars[1], use_nesterov}; }
};

struct RMSPropOp {
  using Inputs = gpu::RMSPropInputs;
  static constexpr int kSlots = 2, kGrad = 7, kScalars[] = {3, 4, 5, 6};

  TfStatus Init(OpKernelConstruction*) { return tensorflow::OkStatus(); }
  Inputs Make(const float* const* scalars) const { return {scalars[0], scalars[1], scalars[2], scalars[3]}; }
};

struct CenteredRMSPropOp {
  using Inputs = gpu::CenteredRMSPropInputs;
  static constexpr int kSlots = 3, kGrad = 8, kScalars[] = {4, 5, 6, 7};

  TfStatus Init(OpKernelConstruction*) { return tensorflow::OkStatus(); }
  Inputs Make(const float* const* scalars) const { return {scalars[0], scalars[1], scalars[2], scalars[3]}; }
};

template <class Op, class Index>
class SparseApplyGpuOp final : public OpKernel {
 public:
  explicit SparseApplyGpuOp(OpKernelConstruction* ctx) : OpKernel(ctx) { OP_REQUIRES_OK(ctx, op_.Init(ctx)); }

  void Compute(OpKernelContext* ctx) override {
    LockedVariables variables;
    OP_REQUIRES_OK(ctx, variables.Lock(ctx, 0, 1 + Op::kSlots, tensorflow::DT_FLOAT));
    OP_REQUIRES_OK(ctx, Check(ctx, variables));
    variables.CopyOnRead();
    OP_REQUIRES_OK(ctx, variables.PrepareToUpdate(ctx, CopyOnCard));

    const Tensor& grad = ctx->input(Op::kGrad);
    const Tensor& indices = ctx->input(Op::kGrad + 1);
    gpu::VariableRows rows = {};
    rows.value = variables.data<float>(0);
    for (int k = 0; k < Op::kSlots; ++k) rows.slots[k] = variables.data<float>(1 + k);
    rows.rows = variables.shape(0).dim_size(0);
    rows.dim = rows.rows == 0 ? 0 : variables.shape(0).num_elements() / rows.rows;
    const float* scalars[std::size(Op::kScalars)];
    for (size_t i = 0; i < std::size(Op::kScalars); ++i)
      scalars[i] = ctx->input(Op::kScalars[i]).template flat<float>().data();
    const gpu::RowGradients<Index> gradients = {indices.template flat<Index>().data(), grad.flat<float>().data(),
                                                indices.NumElements()};
    const char* error = gpu::SparseApplyAsync(op_.Make(scalars), rows, gradients, GpuStream(ctx));
    OP_REQUIRES_OK(ctx, GpuStatus(*this, error));
  }

 private:
  TfStatus Check(OpKernelContext* ctx, const LockedVariables& variables) const {
    const auto& shape = variables.shape(0);
    for (int k = 1; k <= Op::kSlots; ++k) {
      if (variables.shape(k) != shape) {
        return Invalid(requested_input(k), " is of shape ", variables.shape(k).DebugString(), ", the variable of ",
                       shape.DebugString());
      }
    }
    for (const int i : Op::kScalars) {
      if (ctx->input(i).NumElements() != 1) {
        return Invalid(requested_input(i), " has shape ", ctx->input(i).shape().DebugString(), "; wanted a scalar");
      }
    }
    const auto& grad = ctx->input(Op::kGrad).shape();
    const auto& indices = ctx->input(Op::kGrad + 1).shape();
    bool fits = shape.dims() >= 1 && indices.dims() == 1 && grad.dims() == shape.dims() &&
                grad.dim_size(0) == indices.dim_size(0);
    for (int d = 1; fits && d < shape.dims(); ++d) fits = grad.dim_size(d) == shape.dim_size(d);
    if (!fits) {
      return Invalid("grad has shape ", grad.DebugString(), " and indices ", indices.DebugString(),
                     "; wanted a row for each index of a variable of shape ", shape.DebugString());
    }
    return tensorflow::OkStatus();
  }

  template <class... Args>
  TfStatus Invalid(const Args&... args) const {
    return errors::InvalidArgument(type_string(), " '", name(), "': ", args...);
  }

  Op op_;
};

#define TFB_REGISTER(NAME, OP, SLOTS)                                             \
  REGISTER_KERNEL_BUILDER(Name(NAME)                                              \
                              .Device(tensorflow::DEVICE_GPU)                     \
                              .HostMemory("var") SLOTS.TypeConstraint<float>("T") \
                              .TypeConstraint<int32_t>("Tindices"),               \
                          SparseApplyGpuOp<OP, int32_t>);                         \
  REGISTER_KERNEL_BUILDER(Name(NAME)                                              \
                              .Device(tensorflow::DEVICE_GPU)                     \
                              .HostMemory("var") SLOTS.TypeConstraint<float>("T") \
                              .TypeConstraint<int64_t>("Tindices"),               \
                          SparseApplyGpuOp<OP, int64_t>)
TFB_REGISTER("ResourceSparseApplyMomentum", MomentumOp, .HostMemory("accum"));
TFB_REGISTER("ResourceSparseApplyRMSProp", RMSPropOp, .HostMemory("ms").HostMemory("mom"));
TFB_REGISTER("ResourceSparseApplyCenteredRMSProp", CenteredRMSPropOp,
             .HostMemory("mg").HostMemory("ms").HostMemory("mom"));
#undef TFB_REGISTER

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
