// TfBoosterPackTensors and TfBoosterUnpackTensors: many small tensors as one buffer.
#include <cstring>
#include <limits>
#include <string>
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
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;

// What TensorFlow's allocators align to; Eigen reads by it.
constexpr int64_t kAlignment = 64;

int64_t AlignUp(int64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

Status CheckTypes(const tensorflow::DataTypeVector& types) {
  for (const tensorflow::DataType type : types) {
    if (tensorflow::DataTypeSize(type) == 0) {
      return InvalidArgument("PackTensors: a tensor is of type ", tensorflow::DataTypeString(type),
                             ", whose elements have no fixed size; pass it beside");
    }
  }
  return tensorflow::OkStatus();
}

class PackTensorsOp : public OpKernel {
 public:
  explicit PackTensorsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    tensorflow::DataTypeVector types;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &types));
    OP_REQUIRES_OK(ctx, CheckTypes(types));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<int64_t> layout, offsets;
    int64_t size = 0;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const Tensor& tensor = ctx->input(i);
      offsets.push_back(size);
      layout.push_back(size);
      layout.push_back(tensor.dims());
      for (int d = 0; d < tensor.dims(); ++d) layout.push_back(tensor.dim_size(d));
      size = AlignUp(size + tensor.tensor_data().size());
    }
    tensorflow::AllocatorAttributes host;
    host.set_on_host(true);
    host.set_gpu_compatible(true);
    Tensor *packed = nullptr, *layout_out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({size}), &packed, host));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({}), &layout_out));
    char* const bytes = reinterpret_cast<char*>(packed->flat<uint8_t>().data());
    int64_t end = 0;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const auto data = ctx->input(i).tensor_data();
      std::memset(bytes + end, 0, offsets[i] - end);  // Gaps: a copy of them must not show what memory held.
      if (!data.empty()) std::memcpy(bytes + offsets[i], data.data(), data.size());
      end = offsets[i] + data.size();
    }
    std::memset(bytes + end, 0, size - end);
    layout_out->scalar<tstring>()().assign(reinterpret_cast<const char*>(layout.data()),
                                           layout.size() * sizeof(int64_t));
  }
};

class UnpackTensorsOp : public OpKernel {
 public:
  explicit UnpackTensorsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &types_));
    OP_REQUIRES_OK(ctx, CheckTypes(types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& packed = ctx->input(0);
    OP_REQUIRES(ctx, packed.dims() == 1,
                InvalidArgument("UnpackTensors: packed has rank ", packed.dims(), "; wanted 1"));
    OP_REQUIRES(ctx, ctx->input(1).dims() == 0, InvalidArgument("UnpackTensors: layout is no scalar"));
    const tstring& bytes = ctx->input(1).scalar<tstring>()();
    std::vector<int64_t> layout(bytes.size() / sizeof(int64_t));
    if (!layout.empty()) std::memcpy(layout.data(), bytes.data(), layout.size() * sizeof(int64_t));
    size_t at = 0;
    for (size_t i = 0; i < types_.size(); ++i) {
      Tensor tensor;
      OP_REQUIRES_OK(ctx, Part(packed, layout, types_[i], shapes_[i], &at, &tensor));
      ctx->set_output(static_cast<int>(i), tensor);
    }
    OP_REQUIRES(ctx, at == layout.size(),
                InvalidArgument("UnpackTensors: layout has more than ", types_.size(), " tensors"));
  }

 private:
  // The tensor that layout describes from `*at` on, as a part of `packed`'s buffer.
  static Status Part(const Tensor& packed, const std::vector<int64_t>& layout, tensorflow::DataType type,
                     const tensorflow::PartialTensorShape& wanted, size_t* at, Tensor* tensor) {
    const Status bad = InvalidArgument("UnpackTensors: layout does not fit packed, of ", packed.dim_size(0),
                                       " bytes; both must come from one PackTensors of the same types");
    if (layout.size() - *at < 2) return bad;
    const int64_t offset = layout[*at], rank = layout[*at + 1];
    *at += 2;
    if (rank < 0 || rank > TensorShape::MaxDimensions() || static_cast<size_t>(rank) > layout.size() - *at) return bad;
    TensorShape shape;
    TF_RETURN_IF_ERROR(TensorShape::BuildTensorShape(
        tensorflow::gtl::ArraySlice<int64_t>(layout.data() + *at, static_cast<size_t>(rank)), &shape));
    *at += rank;
    if (!wanted.IsCompatibleWith(shape)) {
      return InvalidArgument("UnpackTensors: a tensor has shape ", shape.DebugString(), "; wanted ",
                             wanted.DebugString());
    }
    const int64_t element = tensorflow::DataTypeSize(type), room = packed.dim_size(0);
    if (offset < 0 || offset > room || offset % kAlignment != 0 || shape.num_elements() > (room - offset) / element) {
      return bad;
    }
    return tensor->BitcastFrom(packed.Slice(offset, offset + shape.num_elements() * element), type, shape);
  }

  tensorflow::DataTypeVector types_;
  std::vector<tensorflow::PartialTensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterPackTensors").Device(tensorflow::DEVICE_CPU), PackTensorsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterUnpackTensors").Device(tensorflow::DEVICE_CPU), UnpackTensorsOp);
// Needs nothing of CUDA: it only says which part of the buffer is which tensor.
REGISTER_KERNEL_BUILDER(Name("TfBoosterUnpackTensors").Device(tensorflow::DEVICE_GPU).HostMemory("layout"),
                        UnpackTensorsOp);

}  // namespace
}  // namespace tf_booster
