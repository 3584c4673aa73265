// What the kernels of TfBoosterGatherBatchMatMul for CPU and GPU have in common: shapes, and what is wrong with them.
#ifndef TF_BOOSTER_CC_TF_KERNELS_GATHER_MATMUL_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_GATHER_MATMUL_OP_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class GatherBatchMatMulBase : public tensorflow::OpKernel {
 public:
  explicit GatherBatchMatMulBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string gathered;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("gathered", &gathered));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("adj_x", &adj_x_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("adj_y", &adj_y_));
    gathered_x_ = gathered == "x";
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    using tensorflow::Tensor;
    const Tensor &x = ctx->input(0), &y = ctx->input(1), &rows = ctx->input(2);
    const Tensor& other = gathered_x_ ? y : x;
    OP_REQUIRES(ctx, x.dims() >= 3 && x.dims() == y.dims(), Wrong("x", x, "y", y, "wanted one rank of at least 3"));
    OP_REQUIRES(ctx, rows.dims() == 1,
                tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': rows is ",
                                                    rows.shape().DebugString(), "; wanted a vector"));
    const int rank = x.dims();
    Sizes s;
    s.few = (gathered_x_ ? x : y).dim_size(0);
    s.other_has_one_row = other.dim_size(0) == 1;
    s.one_for_all = rows.NumElements() == 1 && !s.other_has_one_row;
    s.batch = s.one_for_all ? other.dim_size(0) : rows.NumElements();
    OP_REQUIRES(ctx, other.dim_size(0) == s.batch || s.other_has_one_row,
                Wrong(gathered_x_ ? "y" : "x", other, "rows", rows, "wanted a row for each of them, or one"));
    s.m = x.dim_size(rank - (adj_x_ ? 1 : 2));
    s.k = x.dim_size(rank - (adj_x_ ? 2 : 1));
    s.n = y.dim_size(rank - (adj_y_ ? 2 : 1));
    OP_REQUIRES(ctx, y.dim_size(rank - (adj_y_ ? 1 : 2)) == s.k,
                Wrong("x", x, "y", y, "wanted as many columns of the first as rows of the second"));
    tensorflow::TensorShape shape({s.batch});
    for (int d = 1; d < rank - 2; ++d) {
      const int64_t left = x.dim_size(d), right = y.dim_size(d);
      OP_REQUIRES(ctx, left == right || left == 1 || right == 1,
                  Wrong("x", x, "y", y, "wanted equal dimensions between, or 1"));
      s.inner.push_back(left == 1 ? right : left);
      shape.AddDim(s.inner.back());
    }
    shape.AddDim(s.m);
    shape.AddDim(s.n);
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &out));
    if (out->NumElements() > 0) OP_REQUIRES_OK(ctx, Multiply(ctx, s, out));
  }

 protected:
  // inner: the dimensions between the first and the last two, as they are broadcast. few: rows of the gathered side.
  // one_for_all: rows names one row, which serves all of the other side's.
  struct Sizes {
    int64_t batch = 0, m = 0, n = 0, k = 0, few = 0;
    bool other_has_one_row = false, one_for_all = false;
    std::vector<int64_t> inner;
  };

  virtual tensorflow::Status Multiply(tensorflow::OpKernelContext* ctx, const Sizes& sizes,
                                      tensorflow::Tensor* out) const = 0;

  bool gathered_x_ = false, adj_x_ = false, adj_y_ = false;

 private:
  tensorflow::Status Wrong(const char* one, const tensorflow::Tensor& a, const char* two, const tensorflow::Tensor& b,
                           const char* wanted) const {
    return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': ", one, " is ", a.shape().DebugString(),
                                               ", ", two, " is ", b.shape().DebugString(), "; ", wanted);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_GATHER_MATMUL_OP_H_
