// TfBoosterPackTensors and TfBoosterUnpackTensors: many small tensors as one buffer.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cc/tf/kernels/pack_tensors_op.h"
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

class PackTensorsOp final : public PackTensorsOpBase {
 public:
  using PackTensorsOpBase::PackTensorsOpBase;

 protected:
  Status AllocatePacked(OpKernelContext* ctx, int64_t bytes, Tensor** packed) const override {
    tensorflow::AllocatorAttributes host;
    host.set_on_host(true);
    host.set_gpu_compatible(true);
    return ctx->allocate_output(0, TensorShape({bytes}), packed, host);
  }

  Status Fill(OpKernelContext* ctx, const std::vector<int64_t>& ends, char* packed) const override {
    for (int64_t i = 0, begin = 0; i < ctx->num_inputs(); begin = ends[i++]) {
      const auto data = ctx->input(static_cast<int>(i)).tensor_data();
      const int64_t size = static_cast<int64_t>(data.size());
      if (size > 0) std::memcpy(packed + begin, data.data(), size);
      std::memset(packed + begin + size, 0, ends[i] - begin - size);
    }
    return tensorflow::OkStatus();
  }
};

class UnpackTensorsOp : public OpKernel {
 public:
  explicit UnpackTensorsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &types_));
    OP_REQUIRES_OK(ctx, CheckPackedTypes(types_));
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
    if (offset < 0 || offset > room || offset % kPackAlignment != 0 ||
        shape.num_elements() > (room - offset) / element) {
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
