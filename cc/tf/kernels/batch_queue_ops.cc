// TfBoosterEnqueueBatch, TfBoosterDequeueBatch, TfBoosterBatchQueueSize: the queue between the halves of a split graph.
//
// One op each where TensorFlow's FIFOQueue takes six for the same: its handle, its size and an assertion before it is
// taken from, since it would wait for ever for a batch that nobody makes, and two ops that may wait and therefore
// allocate what they wait with. Nothing here waits: whoever takes a batch has been told that it is there. 13 us of a
// step of 150 with TensorFlow's.
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using Batch = std::vector<Tensor>;

class BatchQueue : public tensorflow::ResourceBase {
 public:
  void Push(Batch batch) {
    tensorflow::mutex_lock lock(mutex_);
    batches_.push_back(std::move(batch));
  }

  // Whether there was one; it is in `batch` then.
  bool Pop(Batch* batch) {
    tensorflow::mutex_lock lock(mutex_);
    if (batches_.empty()) return false;
    *batch = std::move(batches_.front());
    batches_.pop_front();
    return true;
  }

  int Size() {
    tensorflow::mutex_lock lock(mutex_);
    return static_cast<int>(batches_.size());
  }

  std::string DebugString() const override { return "TfBoosterBatchQueue"; }

 private:
  tensorflow::mutex mutex_;
  std::deque<Batch> batches_;
};

// An op on the queue of its `container` and `shared_name`, which the first of them makes.
class BatchQueueOp : public tensorflow::OpKernel {
 public:
  explicit BatchQueueOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    tensorflow::ContainerInfo where;
    OP_REQUIRES_OK(ctx, where.Init(ctx->resource_manager(), def()));
    BatchQueue* queue = nullptr;
    OP_REQUIRES_OK(ctx, ctx->resource_manager()->LookupOrCreate<BatchQueue>(where.container(), where.name(), &queue,
                                                                            [](BatchQueue** made) {
                                                                              *made = new BatchQueue;
                                                                              return tensorflow::OkStatus();
                                                                            }));
    queue_.reset(queue);
  }

  bool IsExpensive() override { return false; }

 protected:
  BatchQueue& queue() { return *queue_; }

  static void SetCount(OpKernelContext* ctx, int count) {
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &out));
    out->scalar<int>()() = count;
  }

 private:
  tensorflow::core::RefCountPtr<BatchQueue> queue_;
};

class EnqueueBatchOp : public BatchQueueOp {
 public:
  using BatchQueueOp::BatchQueueOp;

  void Compute(OpKernelContext* ctx) override {
    Batch batch;
    batch.reserve(ctx->num_inputs());
    for (int i = 0; i < ctx->num_inputs(); ++i) batch.push_back(ctx->input(i));
    queue().Push(std::move(batch));
    SetCount(ctx, 1);
  }
};

class DequeueBatchOp : public BatchQueueOp {
 public:
  using BatchQueueOp::BatchQueueOp;

  void Compute(OpKernelContext* ctx) override {
    Batch batch;
    OP_REQUIRES(
        ctx, queue().Pop(&batch),
        tensorflow::errors::InvalidArgument("tf_booster: a step of the embedding pipeline found no batch in its queue; "
                                            "run steps one by one through the session "
                                            "that tf_booster drives, or use enable_gpu_booster(pipeline='off')"));
    OP_REQUIRES(ctx, static_cast<int>(batch.size()) == ctx->num_outputs(),
                tensorflow::errors::Internal("tf_booster: the batch in the queue has ", batch.size(),
                                             " tensors, wanted ", ctx->num_outputs()));
    for (int i = 0; i < ctx->num_outputs(); ++i) ctx->set_output(i, batch[i]);
  }
};

class BatchQueueSizeOp : public BatchQueueOp {
 public:
  using BatchQueueOp::BatchQueueOp;

  void Compute(OpKernelContext* ctx) override { SetCount(ctx, queue().Size()); }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterEnqueueBatch").Device(tensorflow::DEVICE_CPU), EnqueueBatchOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterDequeueBatch").Device(tensorflow::DEVICE_CPU), DequeueBatchOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterBatchQueueSize").Device(tensorflow::DEVICE_CPU), BatchQueueSizeOp);

}  // namespace
}  // namespace tf_booster
