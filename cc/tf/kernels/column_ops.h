// What TfBoosterConcatColumns and TfBoosterSplitColumns have in common on CPU and GPU: inputs and outputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_COLUMN_OPS_H_
#define TF_BOOSTER_CC_TF_KERNELS_COLUMN_OPS_H_

#include <cstdint>
#include <vector>

#include "cc/core/columns/column_copy.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// The number of rows: the product of all dimensions but the last.
inline int64_t RowsOf(const tensorflow::TensorShape& shape) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < shape.dims(); ++d) rows *= shape.dim_size(d);
  return rows;
}

// `shape` with another last dimension.
inline tensorflow::TensorShape WithColumns(tensorflow::TensorShape shape, int64_t columns) {
  shape.set_dim(shape.dims() - 1, columns);
  return shape;
}

class ConcatColumnsOpBase : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::TensorShape& first = ctx->input(0).shape();
    OP_REQUIRES(
        ctx, first.dims() >= 1,
        tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': values[0] is a scalar; wanted columns"));
    std::vector<Columns<const char>> parts;
    int64_t columns = 0;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const tensorflow::Tensor& value = ctx->input(i);
      const int64_t own = value.dims() == first.dims() ? value.dim_size(value.dims() - 1) : -1;
      OP_REQUIRES(ctx, own >= 0 && WithColumns(first, own) == value.shape(),
                  tensorflow::errors::InvalidArgument(
                      type_string(), " '", name(), "': values[", i, "] has shape ", value.shape().DebugString(),
                      ", but values[0] has ", first.DebugString(), "; all dimensions but the last must be equal"));
      columns += own;
      parts.push_back({value.tensor_data().data(), own * tensorflow::DataTypeSize(value.dtype())});
    }
    tensorflow::Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, WithColumns(first, columns), &out));
    OP_REQUIRES_OK(ctx, Run(ctx, parts, RowsOf(first), const_cast<char*>(out->tensor_data().data())));
  }

 private:
  // As JoinColumns.
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const std::vector<Columns<const char>>& parts,
                                 int64_t rows, char* wide) const = 0;
};

class SplitColumnsOpBase : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& value = ctx->input(0);
    OP_REQUIRES(
        ctx, value.dims() >= 1,
        tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': value is a scalar; wanted columns"));
    std::vector<int64_t> sizes;
    OP_REQUIRES_OK(ctx, ReadSizes(ctx->input(1), value.dim_size(value.dims() - 1), &sizes));
    std::vector<Columns<char>> parts;
    for (int i = 0; i < num_outputs(); ++i) {
      tensorflow::Tensor* out = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, WithColumns(value.shape(), sizes[i]), &out));
      parts.push_back(
          {const_cast<char*>(out->tensor_data().data()), sizes[i] * tensorflow::DataTypeSize(value.dtype())});
    }
    OP_REQUIRES_OK(ctx, Run(ctx, value.tensor_data().data(), RowsOf(value.shape()), parts));
  }

 private:
  // As SplitColumns.
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const char* wide, int64_t rows,
                                 const std::vector<Columns<char>>& parts) const = 0;

  tensorflow::Status ReadSizes(const tensorflow::Tensor& given, int64_t columns, std::vector<int64_t>* sizes) const {
    if (given.dims() != 1 || given.NumElements() != num_outputs()) {
      return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': size_splits has shape ",
                                                 given.shape().DebugString(), ", wanted [", num_outputs(), "]");
    }
    int64_t sum = 0, open = -1;
    bool valid = true;
    for (int i = 0; i < num_outputs(); ++i) {
      const int64_t size = given.dtype() == tensorflow::DT_INT32 ? given.flat<int32_t>()(i) : given.flat<int64_t>()(i);
      sizes->push_back(size);
      if (size == -1 && open < 0) {
        open = i;
      } else {
        valid = valid && size >= 0 && size <= columns;
        sum += valid ? size : 0;
      }
    }
    if (open >= 0) (*sizes)[open] = columns - sum;
    if (valid && (open >= 0 ? sum <= columns : sum == columns)) return tensorflow::OkStatus();
    return tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': size_splits ",
                                               given.DebugString(num_outputs()), " do not make up the ", columns,
                                               " columns of value");
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_COLUMN_OPS_H_
