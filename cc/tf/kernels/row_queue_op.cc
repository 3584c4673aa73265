// TfBoosterRowQueue: makes a RowQueue, which all of TensorFlow's ops of queues take.
#include <cstdint>
#include <limits>

#include "cc/tf/kernels/row_queue.h"
#include "tensorflow/core/framework/resource_op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::QueueInterface;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

class RowQueueOp final : public tensorflow::ResourceOpKernel<QueueInterface> {
 public:
  explicit RowQueueOp(tensorflow::OpKernelConstruction* ctx) : ResourceOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("component_types", &options_.dtypes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &options_.shapes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &options_.capacity));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shuffle", &options_.shuffle));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("min_after_dequeue", &options_.min_after_dequeue));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed", &options_.seed));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed2", &options_.seed2));
    if (options_.capacity < 0) options_.capacity = std::numeric_limits<int32_t>::max();
    OP_REQUIRES(ctx, options_.shapes.size() == options_.dtypes.size(),
                InvalidArgument("RowQueue '", name(), "': there are ", options_.shapes.size(), " shapes for ",
                                options_.dtypes.size(), " component_types; wanted one for each"));
    for (const tensorflow::DataType dtype : options_.dtypes) {
      OP_REQUIRES(ctx, RowSlots::Holds(dtype),
                  InvalidArgument("RowQueue '", name(), "': a component is ", tensorflow::DataTypeString(dtype),
                                  "; wanted numbers, bool or string"));
    }
  }

 private:
  TfStatus CreateResource(QueueInterface** queue) override {
    options_.name = cinfo_.name();
    *queue = new RowQueue(options_);
    return tensorflow::OkStatus();
  }

  RowQueueOptions options_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterRowQueue").Device(tensorflow::DEVICE_CPU), RowQueueOp);

}  // namespace
}  // namespace tf_booster
