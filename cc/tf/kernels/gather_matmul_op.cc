// TfBoosterGatherBatchMatMul on the CPU.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/products/gathered_products.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;
using tensorflow::errors::InvalidArgument;

class GatherBatchMatMulOp final : public tensorflow::OpKernel {
 public:
  explicit GatherBatchMatMulOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string gathered;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("gathered", &gathered));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("adj_x", &adj_x_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("adj_y", &adj_y_));
    gathered_x_ = gathered == "x";
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor &x = ctx->input(0), &y = ctx->input(1);
    const Tensor& gathered = gathered_x_ ? x : y;
    const Tensor& other = gathered_x_ ? y : x;
    OP_REQUIRES(ctx, x.dims() >= 3 && x.dims() == y.dims(), Wrong("x", x, "y", y, "wanted one rank of at least 3"));
    std::vector<int64_t> rows;
    OP_REQUIRES_OK(ctx, ReadRows(ctx->input(2), gathered.dim_size(0), &rows));
    const int64_t batch = static_cast<int64_t>(rows.size()), other_rows = other.dim_size(0);
    OP_REQUIRES(ctx, other_rows == batch || other_rows == 1,
                Wrong(gathered_x_ ? "y" : "x", other, "rows", ctx->input(2), "wanted a row for each of them, or one"));
    GatheredProducts p;
    const int rank = x.dims();
    p.m = x.dim_size(rank - (adj_x_ ? 1 : 2));
    p.k = x.dim_size(rank - (adj_x_ ? 2 : 1));
    p.n = y.dim_size(rank - (adj_y_ ? 2 : 1));
    OP_REQUIRES(ctx, y.dim_size(rank - (adj_y_ ? 1 : 2)) == p.k,
                Wrong("x", x, "y", y, "wanted as many columns of the first as rows of the second"));
    TensorShape shape({batch});
    for (int d = 1; d < rank - 2; ++d) {
      const int64_t left = x.dim_size(d), right = y.dim_size(d);
      OP_REQUIRES(ctx, left == right || left == 1 || right == 1,
                  Wrong("x", x, "y", y, "wanted equal dimensions between, or 1"));
      shape.AddDim(left == 1 ? right : left);
    }
    p.left = Side(x, adj_x_, shape);
    p.right = Side(y, adj_y_, shape);
    shape.AddDim(p.m);
    shape.AddDim(p.n);
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &out));
    if (out->NumElements() == 0) return;
    p.left_is_gathered = gathered_x_;
    p.other_has_one_row = other_rows == 1;
    p.rows = rows.data();
    p.count = batch;
    p.c = out->flat<float>().data();
    TfParallelFor pf(ctx);
    MultiplyGathered(p, pf);
  }

 private:
  TfStatus Wrong(const char* one, const Tensor& a, const char* two, const Tensor& b, const char* wanted) const {
    return InvalidArgument("GatherBatchMatMul '", name(), "': ", one, " is ", a.shape().DebugString(), ", ", two,
                           " is ", b.shape().DebugString(), "; ", wanted);
  }

  TfStatus ReadRows(const Tensor& given, int64_t limit, std::vector<int64_t>* rows) const {
    if (given.dims() != 1) {
      return InvalidArgument("GatherBatchMatMul '", name(), "': rows is ", given.shape().DebugString(),
                             "; wanted a vector");
    }
    if (given.dtype() == tensorflow::DT_INT32) {
      rows->assign(given.flat<int32_t>().data(), given.flat<int32_t>().data() + given.NumElements());
    } else {
      rows->assign(given.flat<int64_t>().data(), given.flat<int64_t>().data() + given.NumElements());
    }
    for (size_t i = 0; i < rows->size(); ++i) {
      if ((*rows)[i] < 0 || (*rows)[i] >= limit) {
        return InvalidArgument("GatherBatchMatMul '", name(), "': rows[", i, "] = ", (*rows)[i], " is not in [0, ",
                               limit, "), the rows of ", gathered_x_ ? "x" : "y");
      }
    }
    return tensorflow::OkStatus();
  }

  // shape: [batch, …], of which the dimensions behind the first are broadcast to.
  static MatrixRows Side(const Tensor& tensor, bool transposed, const TensorShape& shape) {
    MatrixRows side;
    side.data = tensor.flat<float>().data();
    side.transposed = transposed;
    for (int d = 1; d < shape.dims(); ++d) {
      const int64_t own = tensor.dim_size(d);
      std::vector<int64_t> next;
      for (const int64_t before : side.inner) {
        for (int64_t i = 0; i < shape.dim_size(d); ++i) next.push_back(before * own + (own == 1 ? 0 : i));
      }
      side.inner = std::move(next);
      side.matrices *= own;
    }
    return side;
  }

  bool gathered_x_ = false, adj_x_ = false, adj_y_ = false;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterGatherBatchMatMul").Device(tensorflow::DEVICE_CPU), GatherBatchMatMulOp);

}  // namespace
}  // namespace tf_booster
