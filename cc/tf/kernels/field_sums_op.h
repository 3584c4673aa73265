// What TfBoosterFieldSums and TfBoosterFieldSumsGrad have in common on CPU and GPU: inputs and outputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_FIELD_SUMS_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_FIELD_SUMS_OP_H_

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "cc/core/products/field_sums.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// x, which both ops have as their first input.
inline tensorflow::Status ReadFields(tensorflow::OpKernelContext* ctx, Fields* fields) {
  const tensorflow::Tensor& x = ctx->input(0);
  if (x.dims() != 3) {
    return tensorflow::errors::InvalidArgument(ctx->op_kernel().type_string(), " '", ctx->op_kernel().name(),
                                               "': x has shape ", x.shape().DebugString(),
                                               ", wanted [rows, fields, columns]");
  }
  *fields = {x.flat<float>().data(), x.dim_size(0), x.dim_size(1), x.dim_size(2)};
  return tensorflow::OkStatus();
}

class FieldSumsOpBase : public tensorflow::OpKernel {
 public:
  explicit FieldSumsOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("first", &columns_.first));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_.count));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_joined", &num_joined_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_apart", &num_apart_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("place", &place_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("apart_first", &apart_first_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("apart_columns", &apart_columns_));
    int num_others;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_others", &num_others));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "apart_first", apart_first_.size(), num_apart_, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "apart_columns", apart_columns_.size(), num_apart_, false));
    OP_REQUIRES(
        ctx, num_joined_ == 1 ? place_ <= num_others : num_joined_ == 0 && num_others == 0,
        tensorflow::errors::InvalidArgument(
            ctx->def().op(), " '", ctx->def().name(), "': num_joined is ", num_joined_, ", place ", place_, " with ",
            num_others, " others; wanted one joined tensor with its place among them, or none of both"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    Fields in;
    OP_REQUIRES_OK(ctx, ReadFields(ctx, &in));
    OP_REQUIRES_OK(ctx, CheckColumns("first and columns", columns_, in));
    FieldSums out;
    out.columns = columns_;
    OP_REQUIRES_OK(ctx, Allocate(ctx, 0, {in.rows, columns_.count}, &out.sums));
    OP_REQUIRES_OK(ctx, Allocate(ctx, 1, {in.rows, columns_.count}, &out.square_sums));
    if (num_joined_ == 1) OP_REQUIRES_OK(ctx, ReadJoin(ctx, in, &out));
    std::vector<FieldCopy> copies(num_apart_);
    for (int i = 0; i < num_apart_; ++i) {
      copies[i].columns = {apart_first_[i], apart_columns_[i]};
      OP_REQUIRES_OK(ctx, CheckColumns("apart_first and apart_columns", copies[i].columns, in));
      OP_REQUIRES_OK(ctx, Allocate(ctx, 2 + num_joined_ + i, {in.rows, in.fields, apart_columns_[i]}, &copies[i].to));
    }
    OP_REQUIRES_OK(ctx, Run(ctx, in, out, copies));
  }

 private:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const Fields& in, const FieldSums& out,
                                 const std::vector<FieldCopy>& copies) const = 0;

  tensorflow::Status CheckColumns(const char* name, const FieldColumns& columns, const Fields& in) const {
    if (columns.first >= 0 && columns.count >= 0 && columns.first <= in.width - columns.count) {
      return tensorflow::OkStatus();
    }
    return tensorflow::errors::InvalidArgument(type_string(), " '", this->name(), "': ", name, " are ", columns.first,
                                               " and ", columns.count, ", but x has ", in.width, " columns");
  }

  static tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx, int index, const tensorflow::TensorShape& shape,
                                     float** to) {
    tensorflow::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(index, shape, &tensor));
    *to = tensor->flat<float>().data();
    return tensorflow::OkStatus();
  }

  tensorflow::Status ReadJoin(tensorflow::OpKernelContext* ctx, const Fields& in, FieldSums* out) const {
    std::vector<const tensorflow::Tensor*> others;
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "others", 2, &others));
    out->join_width = in.fields * columns_.count;
    for (size_t i = 0; i < others.size(); ++i) {
      const tensorflow::Tensor& other = *others[i];
      if (other.dim_size(0) != in.rows) {
        return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': others[", i, "] has shape ",
                                                   other.shape().DebugString(), ", but x has ", in.rows,
                                                   " rows; wanted as many");
      }
      (static_cast<int64_t>(i) < place_ ? out->before : out->behind)
          .push_back({other.flat<float>().data(), other.dim_size(1)});
      out->join_width += other.dim_size(1);
    }
    return Allocate(ctx, 2, {in.rows, out->join_width}, &out->joined);
  }

  FieldColumns columns_;
  int num_joined_ = 0, num_apart_ = 0;
  int64_t place_ = 0;
  std::vector<int64_t> apart_first_, apart_columns_;
};

class FieldSumsGradOpBase : public tensorflow::OpKernel {
 public:
  explicit FieldSumsGradOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ranges", &ranges_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("counts", &counts_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("first", &first_));
    std::vector<std::string> kinds;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("kinds", &kinds));
    int64_t n = 0;
    for (const int64_t count : counts_) n = count >= 1 && n >= 0 ? n + count : -1;
    const int64_t all = ctx->num_inputs() - 1;
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "counts", counts_.size(), ranges_.size(), false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "kinds", kinds.size(), all, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "first", first_.size(), all, false));
    OP_REQUIRES(ctx, n == all,
                tensorflow::errors::InvalidArgument(ctx->def().op(), " '", ctx->def().name(),
                                                    "': counts must be 1 at least each and ", all,
                                                    " in all, as there are terms"));
    const std::map<std::string, FieldTerm::Kind> known = {{"whole", FieldTerm::kWhole},
                                                          {"sum", FieldTerm::kSum},
                                                          {"square_sum", FieldTerm::kSquareSum},
                                                          {"product_sum", FieldTerm::kProductSum}};
    for (const std::string& kind : kinds) kinds_.push_back(known.at(kind));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    Fields in;
    OP_REQUIRES_OK(ctx, ReadFields(ctx, &in));
    const int64_t width = std::accumulate(ranges_.begin(), ranges_.end(), int64_t{0});
    OP_REQUIRES(ctx, width == in.width && std::none_of(ranges_.begin(), ranges_.end(), [](int64_t r) { return r < 0; }),
                tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': ranges have ", width,
                                                    " columns, but x has ", in.width));
    std::vector<FieldRange> ranges(ranges_.size());
    int term = 0;
    for (size_t r = 0; r < ranges.size(); ++r) {
      ranges[r].columns = ranges_[r];
      for (int64_t i = 0; i < counts_[r]; ++i, ++term) {
        FieldTerm read;
        OP_REQUIRES_OK(ctx, ReadTerm(ctx, term, in, ranges_[r], &read));
        ranges[r].terms.push_back(read);
      }
    }
    tensorflow::Tensor* gradient = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, ctx->input(0).shape(), &gradient));
    OP_REQUIRES_OK(ctx, Run(ctx, in, ranges, gradient->flat<float>().data()));
  }

 private:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const Fields& in,
                                 const std::vector<FieldRange>& ranges, float* gradient) const = 0;

  tensorflow::Status ReadTerm(tensorflow::OpKernelContext* ctx, int i, const Fields& in, int64_t columns,
                              FieldTerm* term) const {
    const tensorflow::Tensor& tensor = ctx->input(1 + i);
    const int64_t rows = tensor.dims() == 0 ? -1 : tensor.dim_size(0);
    const int64_t step = rows <= 0 ? 0 : tensor.NumElements() / rows;
    const int64_t wanted = columns * (kinds_[i] == FieldTerm::kWhole ? in.fields : 1);
    if ((rows != in.rows && rows != 1) || first_[i] < 0 || (in.rows > 0 && first_[i] > step - wanted)) {
      return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': terms[", i, "] has shape ",
                                                 tensor.shape().DebugString(), ", wanted ", in.rows, " rows or 1 with ",
                                                 wanted, " elements from ", first_[i], " on");
    }
    *term = {kinds_[i], tensor.flat<float>().data() + first_[i], rows == in.rows ? step : 0};
    return tensorflow::OkStatus();
  }

  std::vector<int64_t> ranges_, counts_, first_;
  std::vector<FieldTerm::Kind> kinds_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_FIELD_SUMS_OP_H_
