#include "cc/tf/example_parsing/value_memory.h"

#include <mutex>
#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"

namespace tf_booster {
namespace {

static_assert(KeptMemory::kAlignment >= EIGEN_MAX_ALIGN_BYTES);

class PooledBuffer final : public tensorflow::TensorBuffer {
 public:
  PooledBuffer(std::shared_ptr<ValueMemory> memory, const ValueMemory::Block& block, size_t bytes)
      : TensorBuffer(block.data), memory_(std::move(memory)), block_(block), bytes_(bytes) {}
  ~PooledBuffer() override { memory_->Give(block_); }

  size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  // Asked for each tensor of an element, several times; the default makes a message for the answer.
  bool GetAllocatedBytes(size_t* bytes) const override {
    *bytes = block_.bytes;
    return true;
  }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(bytes_);
    description->set_allocated_bytes(block_.bytes);
    description->set_allocator_name("tf_booster");
  }

 private:
  const std::shared_ptr<ValueMemory> memory_;
  const ValueMemory::Block block_;
  const size_t bytes_;
};

}  // namespace

std::shared_ptr<ValueMemory> ValueMemory::OfAllParsers() {
  static std::mutex mutex;
  static std::weak_ptr<ValueMemory>* const memory = new std::weak_ptr<ValueMemory>();
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<ValueMemory> found = memory->lock();
  if (found == nullptr) *memory = found = std::make_shared<ValueMemory>();
  return found;
}

tensorflow::Tensor ValueMemory::AsTensor(const Block& block, tensorflow::DataType dtype,
                                         const tensorflow::TensorShape& shape) {
  auto* buffer = new PooledBuffer(shared_from_this(), block, shape.num_elements() * tensorflow::DataTypeSize(dtype));
  tensorflow::Tensor tensor(dtype, shape, buffer);
  buffer->Unref();
  return tensor;
}

}  // namespace tf_booster
