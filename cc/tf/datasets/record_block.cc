#include "cc/tf/datasets/record_block.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tf_booster {

bool BlockBuffer::Grow(size_t capacity, size_t used) {
  if (capacity <= capacity_) return true;
  char* const data = static_cast<char*>(tensorflow::port::AlignedMalloc(capacity, 64));
  if (data == nullptr) return false;
  if (used > 0) std::memcpy(data, data_, used);
  tensorflow::port::AlignedFree(data_);
  data_ = data;
  capacity_ = capacity;
  return true;
}

std::shared_ptr<RecordBlock> BlockPool::Take() {
  std::unique_ptr<RecordBlock> block;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      block = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (block == nullptr) block = std::make_unique<RecordBlock>();
  std::shared_ptr<BlockPool> self = shared_from_this();
  return std::shared_ptr<RecordBlock>(
      block.release(), [self](RecordBlock* unused) { self->Give(std::unique_ptr<RecordBlock>(unused)); });
}

void BlockPool::Give(std::unique_ptr<RecordBlock> block) {
  block->records.clear();
  block->last = false;
  block->end = tensorflow::Status();
  block->held_by_batch = 0;
  if (block->buffer.capacity() > kMaxKeptBytes) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (free_.size() < max_free_) free_.push_back(std::move(block));
}

}  // namespace tf_booster
