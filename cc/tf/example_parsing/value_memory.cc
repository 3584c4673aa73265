#include "cc/tf/example_parsing/value_memory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"

namespace tf_booster {
namespace {

constexpr size_t kAlignment = 64;
static_assert(kAlignment >= EIGEN_MAX_ALIGN_BYTES);
constexpr size_t kPage = 4096;
constexpr size_t kSpread = 16 << 10;  // From here on blocks are spread over the places of a page.

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

constexpr size_t kLeastBytes = 512;

int LogOf(size_t bytes) { return 63 - __builtin_clzll(bytes); }

}  // namespace

std::shared_ptr<ValueMemory> ValueMemory::OfAllParsers() {
  static std::mutex mutex;
  static std::weak_ptr<ValueMemory>* const memory = new std::weak_ptr<ValueMemory>();
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<ValueMemory> found = memory->lock();
  if (found == nullptr) *memory = found = std::make_shared<ValueMemory>();
  return found;
}

ValueMemory::~ValueMemory() {
  for (const auto& bin : free_) {
    for (const Block& block : bin) Free(block);
  }
}

size_t ValueMemory::BinOf(size_t bytes) {
  const int log = LogOf(bytes);
  return 8 * log + (bytes >> (log - 3) & 7);
}

void ValueMemory::Free(const Block& block) { std::free(block.data - block.before); }

void ValueMemory::StartBatch(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  batches_ = std::max(2 * bytes, batches_ - batches_ / 16);
  most_used_ = std::max(used_, most_used_ - most_used_ / 64);
  if (kept_ > Limit()) Trim();
}

size_t ValueMemory::Limit() const { return std::min(kMostKept, std::max(batches_, most_used_ - used_)); }

void ValueMemory::Trim() {
  for (size_t bin = kBins; bin-- > 0;) {
    while (kept_ > Limit() && !free_[bin].empty()) {
      kept_ -= free_[bin].back().bytes;
      Free(free_[bin].back());
      free_[bin].pop_back();
    }
  }
}

void ValueMemory::Use(size_t bytes) {
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
}

ValueMemory::Block ValueMemory::Take(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return {};
  bytes = std::max(bytes, kLeastBytes);
  const size_t step = size_t{1} << (LogOf(bytes) - 3);
  Block block;
  block.bytes = (bytes + step - 1) / step * step;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Block>& bin = free_[BinOf(block.bytes)];
    if (!bin.empty()) {
      block = bin.back();
      bin.pop_back();
      kept_ -= block.bytes;
      Use(block.bytes);
      return block;
    }
    if (block.bytes >= kSpread) block.before = taken_++ * kAlignment % kPage;
  }
  char* const data = static_cast<char*>(std::aligned_alloc(kAlignment, block.before + block.bytes));
  if (data == nullptr) return {};
  block.data = data + block.before;
  std::lock_guard<std::mutex> lock(mutex_);
  Use(block.bytes);
  return block;
}

void ValueMemory::Give(Block block) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    used_ -= block.bytes;
    if (kept_ + block.bytes <= Limit()) {
      kept_ += block.bytes;
      free_[BinOf(block.bytes)].push_back(block);
      return;
    }
  }
  Free(block);
}

tensorflow::Tensor ValueMemory::AsTensor(const Block& block, tensorflow::DataType dtype,
                                         const tensorflow::TensorShape& shape) {
  auto* buffer = new PooledBuffer(shared_from_this(), block, shape.num_elements() * tensorflow::DataTypeSize(dtype));
  tensorflow::Tensor tensor(dtype, shape, buffer);
  buffer->Unref();
  return tensor;
}

size_t ValueMemory::kept() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kept_;
}

}  // namespace tf_booster
