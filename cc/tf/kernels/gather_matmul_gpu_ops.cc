// TfBoosterGatherBatchMatMul on the GPU. A row outside gives zeros, as TensorFlow's gather does there.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/products/gathered_products_gpu.h"
#include "cc/tf/kernels/gather_matmul_op.h"
#include "cc/tf/kernels/gpu_memory.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <class Index>
class GatherBatchMatMulGpuOp final : public GatherBatchMatMulBase {
 public:
  using GatherBatchMatMulBase::GatherBatchMatMulBase;

 private:
  tensorflow::Status Multiply(OpKernelContext* ctx, const Sizes& sizes, Tensor* out) const override {
    constexpr int kMost = gpu::StridedMatrices::kMostInner;
    if (sizes.inner.size() > kMost) {
      return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': x and y have rank ",
                                                 ctx->input(0).dims(), "; the GPU's kernel takes up to ", kMost + 3);
    }
    gpu::GatheredOnCard<Index> p;
    p.left = Side(ctx->input(0), adj_x_);
    p.right = Side(ctx->input(1), adj_y_);
    if (sizes.other_has_one_row) (gathered_x_ ? p.right : p.left).row_step = 0;
    p.left_is_gathered = gathered_x_;
    p.rows = ctx->input(2).flat<Index>().data();
    p.rows_step = sizes.one_for_all ? 0 : 1;
    p.few = sizes.few;
    p.batch = sizes.batch;
    p.m = sizes.m;
    p.n = sizes.n;
    p.k = sizes.k;
    for (size_t d = 0; d < sizes.inner.size(); ++d) p.inner[d] = sizes.inner[d];
    p.c = out->flat<float>().data();
    return GpuStatus(*this, gpu::MultiplyGatheredAsync(p, GpuStream(ctx)));
  }

  static gpu::StridedMatrices Side(const Tensor& tensor, bool transposed) {
    gpu::StridedMatrices side;
    side.data = tensor.flat<float>().data();
    const int rank = tensor.dims();
    side.height_step = transposed ? 1 : tensor.dim_size(rank - 1);
    side.width_step = transposed ? tensor.dim_size(rank - 1) : 1;
    int64_t step = tensor.dim_size(rank - 1) * tensor.dim_size(rank - 2);
    for (int d = rank - 3; d > 0; --d) {
      side.inner_steps[d - 1] = tensor.dim_size(d) == 1 ? 0 : step;
      step *= tensor.dim_size(d);
    }
    side.row_step = step;
    return side;
  }
};

#define REGISTER(Index)                                                                                 \
  REGISTER_KERNEL_BUILDER(                                                                              \
      Name("TfBoosterGatherBatchMatMul").Device(tensorflow::DEVICE_GPU).TypeConstraint<Index>("Trows"), \
      GatherBatchMatMulGpuOp<Index>)
REGISTER(int32_t);
REGISTER(int64_t);
#undef REGISTER

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
