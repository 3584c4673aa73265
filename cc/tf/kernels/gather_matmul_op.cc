// TfBoosterGatherBatchMatMul on the CPU.
#include "cc/tf/kernels/gather_matmul_op.h"

#include <utility>
#include <vector>

#include "cc/core/products/gathered_products.h"
#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class GatherBatchMatMulOp final : public GatherBatchMatMulBase {
 public:
  using GatherBatchMatMulBase::GatherBatchMatMulBase;

 private:
  tensorflow::Status Multiply(OpKernelContext* ctx, const Sizes& sizes, Tensor* out) const override {
    std::vector<int64_t> rows;
    TF_RETURN_IF_ERROR(ReadRows(ctx->input(2), sizes.few, &rows));
    if (sizes.one_for_all) rows.assign(sizes.batch, rows[0]);
    GatheredProducts p;
    p.left = Side(ctx->input(0), adj_x_, sizes.inner);
    p.right = Side(ctx->input(1), adj_y_, sizes.inner);
    p.left_is_gathered = gathered_x_;
    p.other_has_one_row = sizes.other_has_one_row;
    p.rows = rows.data();
    p.count = sizes.batch;
    p.m = sizes.m;
    p.n = sizes.n;
    p.k = sizes.k;
    p.c = out->flat<float>().data();
    TfParallelFor pf(ctx);
    MultiplyGathered(p, pf);
    return tensorflow::OkStatus();
  }

  tensorflow::Status ReadRows(const Tensor& given, int64_t limit, std::vector<int64_t>* rows) const {
    if (given.dtype() == tensorflow::DT_INT32) {
      rows->assign(given.flat<int32_t>().data(), given.flat<int32_t>().data() + given.NumElements());
    } else {
      rows->assign(given.flat<int64_t>().data(), given.flat<int64_t>().data() + given.NumElements());
    }
    for (size_t i = 0; i < rows->size(); ++i) {
      if ((*rows)[i] < 0 || (*rows)[i] >= limit) {
        return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': rows[", i, "] = ", (*rows)[i],
                                                   " is not in [0, ", limit, "), the rows of ",
                                                   gathered_x_ ? "x" : "y");
      }
    }
    return tensorflow::OkStatus();
  }

  static MatrixRows Side(const Tensor& tensor, bool transposed, const std::vector<int64_t>& inner) {
    MatrixRows side;
    side.data = tensor.flat<float>().data();
    side.transposed = transposed;
    for (size_t d = 0; d < inner.size(); ++d) {
      const int64_t own = tensor.dim_size(static_cast<int>(d) + 1);
      std::vector<int64_t> next;
      for (const int64_t before : side.inner) {
        for (int64_t i = 0; i < inner[d]; ++i) next.push_back(before * own + (own == 1 ? 0 : i));
      }
      side.inner = std::move(next);
      side.matrices *= own;
    }
    return side;
  }
};

#define REGISTER(Index)                                                                                 \
  REGISTER_KERNEL_BUILDER(                                                                              \
      Name("TfBoosterGatherBatchMatMul").Device(tensorflow::DEVICE_CPU).TypeConstraint<Index>("Trows"), \
      GatherBatchMatMulOp)
REGISTER(int32_t);
REGISTER(int64_t);
#undef REGISTER

}  // namespace
}  // namespace tf_booster
