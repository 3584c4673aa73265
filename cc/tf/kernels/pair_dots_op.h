// What the ops of pairs have in common on CPU and GPU: their inputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_PAIR_DOTS_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_PAIR_DOTS_OP_H_

#include <string>
#include <utility>
#include <vector>

#include "cc/core/columns/column_copy.h"
#include "cc/core/products/pair_dots.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class PairOp : public tensorflow::OpKernel {
 public:
  explicit PairOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pairs", &pairs_));
    if (ctx->HasAttr("column")) OP_REQUIRES_OK(ctx, ctx->GetAttr("column", &column_));
  }

 protected:
  struct Vectors {
    int64_t rows = 0;  // That all parts have.
    int64_t fields = 0;
    std::vector<FieldPart<const float>> parts;
  };

  // InvalidArgument: parts of other shapes, pairs of other fields.
  tensorflow::Status ReadVectors(tensorflow::OpKernelContext* ctx, Vectors* vectors) const {
    namespace errors = tensorflow::errors;
    std::vector<const tensorflow::Tensor*> tensors;
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "parts", -1, &tensors));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const tensorflow::TensorShape& shape = tensors[i]->shape();
      int64_t width = 1;
      for (int d = 1; d < shape.dims(); ++d) width *= shape.dim_size(d);
      if (shape.dims() < 2 || width % dim_ != 0 || shape.dim_size(0) != tensors[0]->dim_size(0)) {
        return errors::InvalidArgument(type_string(), " '", name(), "': parts[", i, "] has shape ", shape.DebugString(),
                                       ", wanted as many rows as parts[0] has, ", tensors[0]->shape().DebugString(),
                                       ", of whole vectors of ", dim_);
      }
      vectors->parts.push_back({tensors[i]->flat<float>().data(), width / dim_});
      vectors->fields += width / dim_;
    }
    vectors->rows = tensors[0]->dim_size(0);
    const int64_t all = vectors->fields * vectors->fields;
    std::vector<bool> seen(all, false);
    for (const int64_t pair : pairs_) {
      if (pair < 0 || pair >= all || seen[pair]) {
        return errors::InvalidArgument(type_string(), " '", name(), "': pairs has ", pair,
                                       ", wanted different numbers from 0 to below ", all);
      }
      seen[pair] = true;
    }
    return tensorflow::OkStatus();
  }

  // InvalidArgument: the gradient of the dots has another shape than they, or not these columns. The outputs are made,
  // as parts.
  tensorflow::Status ReadGradient(tensorflow::OpKernelContext* ctx, const Vectors& in, DotColumns<const float>* dots,
                                  std::vector<FieldPart<float>>* gradients) const {
    const tensorflow::Tensor& gradient = ctx->input(0);
    const bool is_wide = column_ >= 0;
    const int64_t end = is_wide ? column_ + size() : size();
    const bool has_rows = gradient.dims() == 2 && gradient.dim_size(0) == in.rows;
    if (!has_rows || (is_wide ? gradient.dim_size(1) < end : gradient.dim_size(1) != end)) {
      return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': gradient has shape ",
                                                 gradient.shape().DebugString(), ", wanted [", in.rows, ",", end, "]",
                                                 is_wide ? " or more columns" : "");
    }
    *dots = {gradient.flat<float>().data() + (is_wide ? column_ : 0), gradient.dim_size(1)};
    for (size_t i = 0; i < in.parts.size(); ++i) {
      tensorflow::Tensor* out = nullptr;
      const int index = static_cast<int>(i);
      TF_RETURN_IF_ERROR(ctx->allocate_output(index, ctx->input(1 + index).shape(), &out));
      gradients->push_back({out->flat<float>().data(), in.parts[i].fields});
    }
    return tensorflow::OkStatus();
  }

  const std::vector<int64_t>& pairs() const { return pairs_; }
  int64_t size() const { return static_cast<int64_t>(pairs_.size()); }

  int64_t dim_ = 0;

 private:
  std::vector<int64_t> pairs_;
  int64_t column_ = -1;  // Where the dots' begin in a wider gradient; -1: it has no other columns.
};

// Dots that are written where a join of columns would have copied them to.
class JoinedPairDotsOpBase : public PairOp {
 public:
  explicit JoinedPairDotsOpBase(tensorflow::OpKernelConstruction* ctx) : PairOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("order", &order_));
    int num_others;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_others", &num_others));
    std::vector<bool> named(1 + num_others, false);
    bool fits = order_.size() == named.size();
    for (const int64_t part : order_) {
      fits = fits && part >= 0 && part <= num_others && !named[part];
      if (fits) named[part] = true;
    }
    OP_REQUIRES(ctx, fits,
                tensorflow::errors::InvalidArgument(ctx->def().op(), " '", ctx->def().name(),
                                                    "': order must have each number from 0 to ", num_others, " once"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    Vectors in;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    std::vector<const tensorflow::Tensor*> others;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "others", 2, &others));
    int64_t columns = 0, first = 0;
    Copies copied;
    for (const int64_t part : order_) {
      if (part == 0) {
        first = columns;
        columns += size();
        continue;
      }
      const tensorflow::Tensor& other = *others[part - 1];
      OP_REQUIRES(ctx, other.dim_size(0) == in.rows,
                  tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': others[", part - 1, "] has ",
                                                      other.dim_size(0), " rows, but the vectors have ", in.rows,
                                                      "; all must have as many"));
      const int64_t width = other.dim_size(1);
      copied.push_back({{other.tensor_data().data(), width * static_cast<int64_t>(sizeof(float))}, columns});
      columns += width;
    }
    tensorflow::Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {in.rows, columns}, &out));
    OP_REQUIRES_OK(ctx, Run(ctx, in, copied, out->flat<float>().data(), columns, first));
  }

 protected:
  // Narrow matrices, and at which column of the joined one they begin.
  using Copies = std::vector<std::pair<Columns<const char>, int64_t>>;

 private:
  // joined: [rows, columns]; `first`: the dots' first column.
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const Vectors& in, const Copies& copied,
                                 float* joined, int64_t columns, int64_t first) const = 0;

  std::vector<int64_t> order_;  // The parts of `joined`: 0 are the dots, 1 + i is others[i].
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_PAIR_DOTS_OP_H_
