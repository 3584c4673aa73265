// TensorFlow's allocator of a device as tables on the card see it. What is given back is given out again at once: its
// next user's kernels come later in the same stream.
#ifndef TF_BOOSTER_CC_TF_KERNELS_GPU_TABLE_MEMORY_H_
#define TF_BOOSTER_CC_TF_KERNELS_GPU_TABLE_MEMORY_H_

#include <map>
#include <memory>
#include <mutex>

#include "cc/core/base/allocator.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class DeviceAllocator final : public Allocator {
 public:
  explicit DeviceAllocator(tensorflow::Allocator* allocator) : allocator_(allocator) {}

  void* Allocate(size_t bytes) override {
    tensorflow::AllocationAttributes attributes;
    attributes.retry_on_failure = false;  // The table answers ResourceExhausted; nobody should wait ten seconds for it.
    return allocator_->AllocateRaw(tensorflow::Allocator::kAllocatorAlignment, bytes, attributes);
  }
  void Free(void* memory, size_t) override { allocator_->DeallocateRaw(memory); }

 private:
  tensorflow::Allocator* const allocator_;
};

// The device's, for ever: tables may outlive the kernels that made them.
inline Allocator* DeviceAllocatorOf(tensorflow::OpKernelContext* ctx) {
  static std::mutex mutex;
  static auto& all = *new std::map<tensorflow::Allocator*, std::unique_ptr<DeviceAllocator>>();
  tensorflow::Allocator* const allocator = ctx->device()->GetAllocator(tensorflow::AllocatorAttributes());
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<DeviceAllocator>& mine = all[allocator];
  if (mine == nullptr) mine = std::make_unique<DeviceAllocator>(allocator);
  return mine.get();
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_GPU_TABLE_MEMORY_H_
