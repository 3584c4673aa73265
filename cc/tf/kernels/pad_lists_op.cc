// TfBoosterPadLists, TfBoosterSliceLists: lists among the rows of a tensor, or parts of them, are copied, and padded
// anew. TfBoosterListLengths: of rows of a SparseTensor.
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

// Inputs values, lengths and padding. `op`: its name in errors. no_lengths: whether none may stand for all.
class ListsOp : public tensorflow::OpKernel {
 public:
  ListsOp(tensorflow::OpKernelConstruction* ctx, const char* op, bool no_lengths)
      : OpKernel(ctx), op_(op), no_lengths_(no_lengths) {
    const tensorflow::DataType type = input_type(0);
    OP_REQUIRES(ctx, type == tensorflow::DT_STRING || tensorflow::DataTypeCanUseMemcpy(type),
                InvalidArgument(op, " '", name(), "': values are ", tensorflow::DataTypeString(type),
                                "; wanted numbers, bool or strings"));
  }

 protected:
  tensorflow::Status Check(const Tensor& values, const Tensor& lengths, const Tensor& padding) const {
    if (values.dims() < 2 || lengths.dims() != 1 || padding.dims() != 0) {
      return InvalidArgument(op_, " '", name(), "': found shapes ", values.shape().DebugString(), ", ",
                             lengths.shape().DebugString(), ", ", padding.shape().DebugString(),
                             "; wanted values of lists, a vector of lengths, a scalar");
    }
    const int64_t rows = values.dim_size(0), width = values.dim_size(1), n = lengths.NumElements();
    if (n != rows && !(no_lengths_ && n == 0)) {
      return InvalidArgument(op_, " '", name(), "': found ", n, " lengths for ", rows, " rows");
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t length = lengths.flat<int64_t>()(i);
      if (length < 0 || length > width) {
        return InvalidArgument(op_, " '", name(), "': found length ", length, " where values are ", width, " wide");
      }
    }
    return tensorflow::OkStatus();
  }

  // Calls make(elements) with what copies elements of `values` to `output`, which has some.
  template <class Make>
  static void With(const Tensor& values, const Tensor& padding, Tensor* output, const Make& make) {
    if (values.dtype() == tensorflow::DT_STRING) {
      make(Strings{values.flat<tstring>().data(), &padding.scalar<tstring>()(), output->flat<tstring>().data()});
    } else {
      make(Plain{values.tensor_data().data(), padding.tensor_data().data(),
                 const_cast<char*>(output->tensor_data().data()), tensorflow::DataTypeSize(values.dtype())});
    }
  }

 private:
  const char* const op_;
  const bool no_lengths_;
};

class PadListsOp final : public ListsOp {
 public:
  explicit PadListsOp(tensorflow::OpKernelConstruction* ctx) : ListsOp(ctx, "PadLists", /*no_lengths=*/true) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("size", &size_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("longer", &longer_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("in_front", &in_front_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor &values = ctx->input(0), &lengths = ctx->input(1), &padding = ctx->input(2);
    OP_REQUIRES_OK(ctx, Check(values, lengths, padding));
    const int64_t rows = values.dim_size(0), width = values.dim_size(1);
    const bool all = lengths.NumElements() == 0;
    const int64_t size = size_ < 0 ? width : size_;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t length = all ? width : lengths.flat<int64_t>()(i);
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
    With(values, padding, output, [&](const auto& elements) { Pad(elements, values, lengths, output); });
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

class SliceListsOp final : public ListsOp {
 public:
  explicit SliceListsOp(tensorflow::OpKernelConstruction* ctx) : ListsOp(ctx, "SliceLists", /*no_lengths=*/false) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("begin", &begin_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("end", &end_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor &values = ctx->input(0), &lengths = ctx->input(1), &padding = ctx->input(2);
    OP_REQUIRES_OK(ctx, Check(values, lengths, padding));
    Tensor *output = nullptr, *output_lengths = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, lengths.shape(), &output_lengths));
    const auto before = lengths.flat<int64_t>();
    auto after = output_lengths->flat<int64_t>();
    const int64_t rows = values.dim_size(0);
    int64_t widest = 0;
    for (int64_t i = 0; i < rows; ++i) {
      after(i) = std::max<int64_t>(0, Place(end_, before(i)) - Place(begin_, before(i)));
      widest = std::max(widest, after(i));
    }
    tensorflow::TensorShape shape = values.shape();
    shape.set_dim(1, widest);
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &output));
    if (output->NumElements() == 0) return;
    const int64_t width = values.dim_size(1), inner = output->NumElements() / (rows * widest);
    With(values, padding, output, [&](const auto& elements) {
      for (int64_t i = 0; i < rows; ++i) {
        elements.Copy((i * width + Place(begin_, before(i))) * inner, i * widest * inner, after(i) * inner);
        elements.Fill((i * widest + after(i)) * inner, (widest - after(i)) * inner);
      }
    });
  }

 private:
  // Where `bound` is in a list of that length.
  static int64_t Place(int64_t bound, int64_t length) {
    return bound < 0 ? std::max<int64_t>(0, length + bound) : std::min(bound, length);
  }

  int64_t begin_ = 0, end_ = 0;
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
REGISTER_KERNEL_BUILDER(Name("TfBoosterSliceLists").Device(tensorflow::DEVICE_CPU), SliceListsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPadLists").Device(tensorflow::DEVICE_CPU), PadListsOp);

}  // namespace
}  // namespace tf_booster
