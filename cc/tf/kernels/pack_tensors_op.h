// What the kernels of TfBoosterPackTensors share: which types, and where each tensor goes.
#ifndef TF_BOOSTER_CC_TF_KERNELS_PACK_TENSORS_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_PACK_TENSORS_OP_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// What TensorFlow's allocators align to; Eigen reads by it.
inline constexpr int64_t kPackAlignment = 64;

inline tensorflow::Status CheckPackedTypes(const tensorflow::DataTypeVector& types) {
  for (const tensorflow::DataType type : types) {
    if (tensorflow::DataTypeSize(type) == 0) {
      return tensorflow::errors::InvalidArgument("PackTensors: a tensor is of type ", tensorflow::DataTypeString(type),
                                                 ", whose elements have no fixed size; pass it beside");
    }
  }
  return tensorflow::OkStatus();
}

// Derived classes fill the buffer.
class PackTensorsOpBase : public tensorflow::OpKernel {
 public:
  explicit PackTensorsOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    tensorflow::DataTypeVector types;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &types));
    OP_REQUIRES_OK(ctx, CheckPackedTypes(types));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<int64_t> layout, ends;
    int64_t size = 0;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const tensorflow::Tensor& tensor = ctx->input(i);
      layout.push_back(size);
      layout.push_back(tensor.dims());
      for (int d = 0; d < tensor.dims(); ++d) layout.push_back(tensor.dim_size(d));
      const int64_t bytes = static_cast<int64_t>(tensor.TotalBytes());
      size = (size + bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
      ends.push_back(size);
    }
    tensorflow::Tensor *packed = nullptr, *layout_out = nullptr;
    OP_REQUIRES_OK(ctx, AllocatePacked(ctx, size, &packed));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, tensorflow::TensorShape({}), &layout_out));
    OP_REQUIRES_OK(ctx, Fill(ctx, ends, reinterpret_cast<char*>(packed->flat<uint8_t>().data())));
    layout_out->scalar<tensorflow::tstring>()().assign(reinterpret_cast<const char*>(layout.data()),
                                                       layout.size() * sizeof(int64_t));
  }

 protected:
  virtual tensorflow::Status AllocatePacked(tensorflow::OpKernelContext* ctx, int64_t bytes,
                                            tensorflow::Tensor** packed) const = 0;
  // Input i goes where the one before it ends; up to ends[i] zeros follow: a copy of gaps must not show what memory
  // held.
  virtual tensorflow::Status Fill(tensorflow::OpKernelContext* ctx, const std::vector<int64_t>& ends,
                                  char* packed) const = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_PACK_TENSORS_OP_H_
