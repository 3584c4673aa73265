// TfBoosterPadLists: lists among the rows of a tensor are copied, and padded anew. TfBoosterListLengths: of rows of a
// SparseTensor.
#include <algorithm>
#include <cstring>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::errors::DataLoss;
using tensorflow::errors::InvalidArgument;

// Elements of `bytes` bytes.
struct Plain {
  void Copy(int64_t from, int64_t to, int64_t count) const {
    if (count > 0) std::memcpy(output + to * bytes, values + from * bytes, count * bytes);
  }
  void Fill(int64_t to, int64_t count) const {
    if (count <= 0) return;
    char* const first = output + to * bytes;
    std::memcpy(first, padding, bytes);
    for (int64_t done = 1; done < count; done *= 2) {
      std::memcpy(first + done * bytes, first, std::min(done, count - done) * bytes);
    }
  }

  const char *values, *padding;
  char* output;
  int64_t bytes;
};

struct Strings {
  void Copy(int64_t from, int64_t to, int64_t count) const { std::copy_n(values + from, count, output + to); }
  void Fill(int64_t to, int64_t count) const { std::fill_n(output + to, count, *padding); }

  const tstring *values, *padding;
  tstring* output;
};

class PadListsOp final : public tensorflow::OpKernel {
 public:
  explicit PadListsOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("size", &size_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("longer", &longer_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("in_front", &in_front_));
    const tensorflow::DataType type = input_type(0);
    OP_REQUIRES(ctx, type == tensorflow::DT_STRING || tensorflow::DataTypeCanUseMemcpy(type),
                InvalidArgument("PadLists '", name(), "': values are ", tensorflow::DataTypeString(type),
                                "; wanted numbers, bool or strings"));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor &values = ctx->input(0), &lengths = ctx->input(1), &padding = ctx->input(2);
    OP_REQUIRES(ctx, values.dims() >= 2 && lengths.dims() == 1 && padding.dims() == 0,
                InvalidArgument("PadLists '", name(), "': found shapes ", values.shape().DebugString(), ", ",
                                lengths.shape().DebugString(), ", ", padding.shape().DebugString(),
                                "; wanted values of lists, a vector of lengths, a scalar"));
    const int64_t rows = values.dim_size(0), width = values.dim_size(1);
    const bool all = lengths.NumElements() == 0;
    OP_REQUIRES(
        ctx, all || lengths.NumElements() == rows,
        InvalidArgument("PadLists '", name(), "': found ", lengths.NumElements(), " lengths for ", rows, " rows"));
    const int64_t size = size_ < 0 ? width : size_;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t length = all ? width : lengths.flat<int64_t>()(i);
      OP_REQUIRES(
          ctx, 0 <= length && length <= width,
          InvalidArgument("PadLists '", name(), "': found length ", length, " where values are ", width, " wide"));
      if (length > size && longer_ != "cut") {
        OP_REQUIRES(ctx, longer_ == "of padded_batch",
                    InvalidArgument("Paddings must be non-negative: ", in_front_ ? size - length : 0, " ",
                                    in_front_ ? 0 : size - length));
        OP_REQUIRES(ctx, false, DataLoss("Attempted to pad to a smaller size than the input element."));
      }
    }
    tensorflow::TensorShape shape = values.shape();
    shape.set_dim(1, size);
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &output));
    if (output->NumElements() == 0) return;
    if (values.dtype() == tensorflow::DT_STRING) {
      Pad(Strings{values.flat<tstring>().data(), &padding.scalar<tstring>()(), output->flat<tstring>().data()}, values,
          lengths, output);
    } else {
      Pad(Plain{values.tensor_data().data(), padding.tensor_data().data(),
                const_cast<char*>(output->tensor_data().data()), tensorflow::DataTypeSize(values.dtype())},
          values, lengths, output);
    }
  }

 private:
  template <class Elements>
  void Pad(const Elements& elements, const Tensor& values, const Tensor& lengths, Tensor* output) const {
    const int64_t rows = values.dim_size(0), width = values.dim_size(1), size = output->dim_size(1);
    const int64_t inner = output->NumElements() / (rows * size);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t length = std::min(size, lengths.NumElements() == 0 ? width : lengths.flat<int64_t>()(i));
      const int64_t list = i * size + (in_front_ ? size - length : 0), padding = i * size + (in_front_ ? 0 : length);
      elements.Copy(i * width * inner, list * inner, length * inner);
      elements.Fill(padding * inner, (size - length) * inner);
    }
  }

  int64_t size_ = -1;
  std::string longer_;
  bool in_front_ = false;
};

class ListLengthsOp final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor &indices = ctx->input(0), &shape = ctx->input(1);
    OP_REQUIRES(ctx, indices.dims() == 2 && indices.dim_size(1) == 2 && shape.NumElements() == 2,
                InvalidArgument("ListLengths '", name(), "': found indices ", indices.shape().DebugString(),
                                "; wanted those of a SparseTensor of rank 2"));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {shape.flat<int64_t>()(0)}, &output));
    auto lengths = output->flat<int64_t>();
    lengths.setZero();
    const auto places = indices.matrix<int64_t>();
    for (int64_t i = 0; i < indices.dim_size(0);) {  // A row's elements stand together.
      const int64_t row = places(i, 0), first = i;
      OP_REQUIRES(ctx, 0 <= row && row < lengths.size(),
                  InvalidArgument("ListLengths '", name(), "': row ", row, " is none of ", lengths.size()));
      while (i < indices.dim_size(0) && places(i, 0) == row) ++i;
      lengths(row) += i - first;
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterListLengths").Device(tensorflow::DEVICE_CPU), ListLengthsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPadLists").Device(tensorflow::DEVICE_CPU), PadListsOp);

}  // namespace
}  // namespace tf_booster
