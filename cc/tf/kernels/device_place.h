// Where a kernel works. Of two sessions of a process the same device, and on a card the same stream, so that what one
// of them reads comes behind what the other wrote.
#ifndef TF_BOOSTER_CC_TF_KERNELS_DEVICE_PLACE_H_
#define TF_BOOSTER_CC_TF_KERNELS_DEVICE_PLACE_H_

#include <string>

#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

struct DevicePlace {
  explicit DevicePlace(tensorflow::OpKernelContext* ctx) : device(ctx->device()->name()) {
    if (ctx->op_device_context() != nullptr) stream = ctx->op_device_context()->stream();
  }

  bool operator==(const DevicePlace& other) const { return device == other.device && stream == other.stream; }

  std::string device;
  const void* stream = nullptr;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_DEVICE_PLACE_H_
