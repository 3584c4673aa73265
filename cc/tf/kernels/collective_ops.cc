// TfBoosterPin, TfBoosterPackRows and TfBoosterUnpackRows: what stands before and after a collective.
#include <cstring>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

// What TensorFlow's allocators align to; each copy then begins at a cache line.
constexpr int64_t kAlignment = 64;

int64_t AlignUp(int64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

Status CheckTypes(const tensorflow::DataTypeVector& types, const char* op) {
  for (const tensorflow::DataType type : types) {
    if (tensorflow::DataTypeSize(type) == 0) {
      return InvalidArgument(op, ": a tensor is of type ", tensorflow::DataTypeString(type),
                             ", whose elements have no fixed size; gather numbers");
    }
  }
  return tensorflow::OkStatus();
}

class PinOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* ctx) override { ctx->set_output(0, ctx->input(0)); }
  bool IsExpensive() override { return false; }
};

class PackRowsOp : public OpKernel {
 public:
  explicit PackRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    tensorflow::DataTypeVector types;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &types));
    OP_REQUIRES_OK(ctx, CheckTypes(types, "PackRows"));
  }

  void Compute(OpKernelContext* ctx) override {
    const int count = ctx->num_inputs();
    std::vector<int64_t> rows;
    int64_t size = AlignUp(count * sizeof(int64_t));
    for (int i = 0; i < count; ++i) {
      const Tensor& tensor = ctx->input(i);
      OP_REQUIRES(ctx, tensor.dims() >= 1, InvalidArgument("PackRows: tensor ", i, " is a scalar; wanted rows"));
      rows.push_back(tensor.dim_size(0));
      size = AlignUp(size + tensor.tensor_data().size());
    }
    Tensor* packed = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({size}), &packed));
    char* const bytes = reinterpret_cast<char*>(packed->flat<uint8_t>().data());
    int64_t end = Append(bytes, 0, rows.data(), count * sizeof(int64_t));
    for (int i = 0; i < count; ++i) {
      const auto data = ctx->input(i).tensor_data();
      end = Append(bytes, end, data.data(), data.size());
    }
  }

 private:
  // Copies, fills with zeros up to the next part, and returns where that begins.
  static int64_t Append(char* bytes, int64_t begin, const void* data, int64_t size) {
    if (size > 0) std::memcpy(bytes + begin, data, size);
    const int64_t next = AlignUp(begin + size);
    std::memset(bytes + begin + size, 0, next - begin - size);
    return next;
  }
};

class UnpackRowsOp : public OpKernel {
 public:
  explicit UnpackRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &types_));
    OP_REQUIRES_OK(ctx, CheckTypes(types_, "UnpackRows"));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("row_shapes", &row_shapes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ranks", &ranks_));
    for (size_t i = 0; i < types_.size(); ++i) {
      row_bytes_.push_back(row_shapes_[i].num_elements() * tensorflow::DataTypeSize(types_[i]));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& packed = ctx->input(0);
    OP_REQUIRES(ctx, packed.dims() == 1, InvalidArgument("UnpackRows: packed has rank ", packed.dims(), "; wanted 1"));
    const char* const bytes = packed.tensor_data().data();
    std::vector<Part> parts;  // Of rank 0 each tensor, of rank 1 each tensor, …
    OP_REQUIRES_OK(ctx, Read(bytes, packed.NumElements(), &parts));
    const size_t count = types_.size();
    for (size_t i = 0; i < count; ++i) {
      TensorShape shape({0});
      int64_t rows = 0;
      for (size_t part = i; part < parts.size(); part += count) rows += parts[part].rows;
      shape.set_dim(0, rows);
      shape.AppendShape(row_shapes_[i]);
      Tensor* tensor = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), shape, &tensor));
      char* to = const_cast<char*>(tensor->tensor_data().data());
      for (size_t part = i; part < parts.size(); part += count) {
        const int64_t size = parts[part].rows * row_bytes_[i];
        if (size > 0) std::memcpy(to, bytes + parts[part].begin, size);
        to += size;
      }
    }
  }

 private:
  struct Part {
    int64_t begin, rows;
  };

  Status Read(const char* bytes, int64_t size, std::vector<Part>* parts) const {
    const Status bad =
        InvalidArgument("UnpackRows: packed, of ", size, " bytes, is not what PackRows made of ", types_.size(),
                        " such tensors on each of ", ranks_, " ranks; all ranks must run the same graph");
    const int64_t count = static_cast<int64_t>(types_.size()), header = AlignUp(count * sizeof(int64_t));
    int64_t at = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (size - at < header) return bad;
      std::vector<int64_t> rows(count);
      std::memcpy(rows.data(), bytes + at, count * sizeof(int64_t));
      at += header;
      for (int64_t i = 0; i < count; ++i) {
        if (rows[i] < 0 || (row_bytes_[i] > 0 && rows[i] > (size - at) / row_bytes_[i])) return bad;
        parts->push_back({at, rows[i]});
        at = AlignUp(at + rows[i] * row_bytes_[i]);
        if (at > size) return bad;
      }
    }
    return at == size ? tensorflow::OkStatus() : bad;
  }

  tensorflow::DataTypeVector types_;
  std::vector<TensorShape> row_shapes_;
  std::vector<int64_t> row_bytes_;
  int ranks_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterPin").Device(tensorflow::DEVICE_CPU), PinOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPin").Device(tensorflow::DEVICE_GPU), PinOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPackRows").Device(tensorflow::DEVICE_CPU), PackRowsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterUnpackRows").Device(tensorflow::DEVICE_CPU), UnpackRowsOp);

}  // namespace
}  // namespace tf_booster
