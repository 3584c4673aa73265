// TfBoosterMultiMatMul, TfBoosterJoinedMultiMatMul and TfBoosterMultiBiasGrad on the CPU.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/columns/column_copy.h"
#include "cc/core/products/bias_gradients.h"
#include "cc/core/products/small_products.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

// Reads what both kinds of products have in common.
class ProductsOp : public tensorflow::OpKernel {
 public:
  explicit ProductsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n, num_biases;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_biases", &num_biases));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_a", &transpose_a_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_b", &transpose_b_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("relu", &relu_));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "bias", num_biases, n, true));
  }

 protected:
  // The products, without a place for their results.
  TfStatus ReadProducts(OpKernelContext* ctx, std::vector<Product>* products) const {
    std::vector<const Tensor*> a, b, bias;
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "a", 2, &a));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "b", 2, &b));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "bias", 1, &bias));
    products->resize(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      Product& p = (*products)[i];
      p.m = a[i]->dim_size(transpose_a_ ? 1 : 0);
      p.k = a[i]->dim_size(transpose_a_ ? 0 : 1);
      p.n = b[i]->dim_size(transpose_b_ ? 0 : 1);
      if (b[i]->dim_size(transpose_b_ ? 1 : 0) != p.k) {
        return errors::InvalidArgument(type_string(), " '", name(), "': a[", i, "] has shape ",
                                       a[i]->shape().DebugString(), ", which does not fit b[", i, "] of shape ",
                                       b[i]->shape().DebugString());
      }
      if (!bias.empty() && bias[i]->dim_size(0) != p.n) {
        return errors::InvalidArgument(type_string(), " '", name(), "': bias[", i, "] has shape ",
                                       bias[i]->shape().DebugString(), ", wanted [", p.n, "]");
      }
      p.a = a[i]->flat<float>().data();
      p.b = b[i]->flat<float>().data();
      p.a_transposed = transpose_a_;
      p.b_transposed = transpose_b_;
      p.bias = bias.empty() ? nullptr : bias[i]->flat<float>().data();
      p.relu = relu_;
    }
    return tensorflow::OkStatus();
  }

 private:
  bool transpose_a_ = false, transpose_b_ = false, relu_ = false;
};

class MultiMatMulOp final : public ProductsOp {
 public:
  using ProductsOp::ProductsOp;

  void Compute(OpKernelContext* ctx) override {
    std::vector<Product> products;
    OP_REQUIRES_OK(ctx, ReadProducts(ctx, &products));
    for (size_t i = 0; i < products.size(); ++i) {
      Tensor* product = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), {products[i].m, products[i].n}, &product));
      products[i].c = product->flat<float>().data();
    }
    TfParallelFor pf(ctx);
    Multiply(products, pf);
  }
};

// Products that are written where a join of columns would have copied them to.
class JoinedMultiMatMulOp final : public ProductsOp {
 public:
  explicit JoinedMultiMatMulOp(OpKernelConstruction* ctx) : ProductsOp(ctx) {
    int n, num_others;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_others", &num_others));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("order", &order_));
    std::vector<int64_t> sorted = order_;
    std::sort(sorted.begin(), sorted.end());
    bool each_once = static_cast<int>(sorted.size()) == n + num_others;
    for (size_t i = 0; i < sorted.size(); ++i) each_once = each_once && sorted[i] == static_cast<int64_t>(i);
    OP_REQUIRES(ctx, each_once,
                errors::InvalidArgument(ctx->def().op(), " '", ctx->def().name(), "': order must have each of 0 to ",
                                        n + num_others - 1, " once: the products, then the others"));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<Product> products;
    OP_REQUIRES_OK(ctx, ReadProducts(ctx, &products));
    std::vector<const Tensor*> others;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "others", 2, &others));
    const int64_t n = static_cast<int64_t>(products.size()), rows = products[0].m;
    int64_t columns = 0;
    std::vector<int64_t> first_column;
    for (const int64_t part : order_) {
      const int64_t own_rows = part < n ? products[part].m : others[part - n]->dim_size(0);
      OP_REQUIRES(ctx, own_rows == rows,
                  errors::InvalidArgument(type_string(), " '", name(), "': ", part < n ? "product " : "others ",
                                          part < n ? part : part - n, " has ", own_rows, " rows, but product 0 has ",
                                          rows, "; all must have as many"));
      first_column.push_back(columns);
      columns += part < n ? products[part].n : others[part - n]->dim_size(1);
    }
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {rows, columns}, &out));
    float* const joined = out->flat<float>().data();
    std::vector<std::pair<Columns<const char>, float*>> copied;  // And where to.
    for (size_t i = 0; i < order_.size(); ++i) {
      if (order_[i] < n) {
        products[order_[i]].c = joined + first_column[i];
        products[order_[i]].c_step = columns;
      } else {
        const Tensor& other = *others[order_[i] - n];
        copied.push_back({{other.tensor_data().data(), other.dim_size(1) * kFloat}, joined + first_column[i]});
      }
    }
    TfParallelFor pf(ctx);
    MultiplyByRows(products, pf, [&](int64_t begin, int64_t end) {
      for (const auto& [from, to] : copied) PutColumns(from, begin, end, reinterpret_cast<char*>(to), columns * kFloat);
    });
  }

 private:
  static constexpr int64_t kFloat = sizeof(float);

  std::vector<int64_t> order_;  // The parts of the result: i is product i, N + i is others[i].
};

class MultiBiasGradOp final : public tensorflow::OpKernel {
 public:
  explicit MultiBiasGradOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n, num_relus;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_relus", &num_relus));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "relu", num_relus, n, true));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("upstream_column", &upstream_column_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("relu_column", &relu_column_));
    if (columns_.empty()) return;
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "columns", columns_.size(), n, true));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "upstream_column", upstream_column_.size(), n, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "relu_column", relu_column_.size(), num_relus, false));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> upstream, relu;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "upstream", 2, &upstream));
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "relu", 2, &relu));
    const int n = static_cast<int>(upstream.size());
    std::vector<BiasGradient> gradients(n);
    for (int i = 0; i < n; ++i) {
      BiasGradient& g = gradients[i];
      g.rows = upstream[i]->dim_size(0);
      g.columns = columns_.empty() ? upstream[i]->dim_size(1) : columns_[i];
      OP_REQUIRES_OK(ctx, Place(*upstream[i], "upstream", upstream_column_, i, g.columns, &g.upstream));
      g.upstream_step = upstream[i]->dim_size(1);
      Tensor* out = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {g.columns}, &out));
      g.bias = out->flat<float>().data();
      if (relu.empty()) continue;
      OP_REQUIRES(ctx, relu[i]->dim_size(0) == g.rows && (!columns_.empty() || relu[i]->dim_size(1) == g.columns),
                  errors::InvalidArgument(type_string(), " '", name(), "': relu[", i, "] has shape ",
                                          relu[i]->shape().DebugString(), ", wanted that of upstream[", i, "], ",
                                          upstream[i]->shape().DebugString()));
      OP_REQUIRES_OK(ctx, Place(*relu[i], "relu", relu_column_, i, g.columns, &g.relu));
      g.relu_step = relu[i]->dim_size(1);
      OP_REQUIRES_OK(ctx, ctx->allocate_output(n + i, {g.rows, g.columns}, &out));
      g.gradient = out->flat<float>().data();
    }
    TfParallelFor pf(ctx);
    SumBiasGradients(gradients, pf);
  }

 private:
  // Where the columns of list entry `i` begin.
  TfStatus Place(const Tensor& wide, const char* list, const std::vector<int64_t>& first_columns, int i,
                 int64_t columns, const float** place) const {
    const int64_t first = columns_.empty() ? 0 : first_columns[i];
    if (first < 0 || columns < 0 || first + columns > wide.dim_size(1)) {
      return errors::InvalidArgument(type_string(), " '", name(), "': ", list, "[", i, "] has shape ",
                                     wide.shape().DebugString(), ", which has no columns ", first, " to ",
                                     first + columns);
    }
    *place = wide.flat<float>().data() + first;
    return tensorflow::OkStatus();
  }

  std::vector<int64_t> columns_, upstream_column_, relu_column_;  // Empty: all columns.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiMatMul").Device(tensorflow::DEVICE_CPU), MultiMatMulOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterJoinedMultiMatMul").Device(tensorflow::DEVICE_CPU), JoinedMultiMatMulOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiBiasGrad").Device(tensorflow::DEVICE_CPU), MultiBiasGradOp);

}  // namespace tf_booster
