// TensorFlow's allocator of a device as tables on the card see it. What is given back is given out again at once: its
// next user's kernels come later in the same stream.
//
// Rows of tables get a fraction of what TensorFlow has of the device: the rest is for what steps work with, for
// indexes, for everybody else.
#ifndef TF_BOOSTER_CC_TF_KERNELS_GPU_TABLE_MEMORY_H_
#define TF_BOOSTER_CC_TF_KERNELS_GPU_TABLE_MEMORY_H_

#include <map>
#include <memory>
#include <mutex>

#include "cc/core/base/allocator.h"
#include "cc/core/base/capped_allocator.h"
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

// A device's, for ever: tables may outlive the kernels that made them.
struct TableMemory {
  explicit TableMemory(tensorflow::Allocator* allocator) : all(allocator), rows(&all, 0) {}
  DeviceAllocator all;
  CappedAllocator rows;  // Of all its tables; the one made last says how much that may be.
};

inline TableMemory* TableMemoryOf(tensorflow::OpKernelContext* ctx) {
  static std::mutex mutex;
  static auto& of = *new std::map<tensorflow::Allocator*, std::unique_ptr<TableMemory>>();
  tensorflow::Allocator* const allocator = ctx->device()->GetAllocator(tensorflow::AllocatorAttributes());
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<TableMemory>& mine = of[allocator];
  if (mine == nullptr) mine = std::make_unique<TableMemory>(allocator);
  return mine.get();
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_GPU_TABLE_MEMORY_H_
