#include "cc/core/record_reader/record_block.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tf_booster {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

bool BlockBuffer::Grow(size_t capacity, size_t used) {
  if (capacity <= capacity_) return true;
  if (capacity > SIZE_MAX - kAlignment) return false;
  char* const data =
      static_cast<char*>(std::aligned_alloc(kAlignment, (capacity + kAlignment - 1) / kAlignment * kAlignment));
  if (data == nullptr) return false;
  if (used > 0) std::memcpy(data, data_, used);
  std::free(data_);
  data_ = data;
  capacity_ = capacity;
  return true;
}

const std::shared_ptr<BlockPool>& BlockPool::Shared() {
  static const auto* const pool = new std::shared_ptr<BlockPool>(std::make_shared<BlockPool>(size_t{16} << 20));
  return *pool;
}

std::shared_ptr<RecordBlock> BlockPool::Take(size_t slot) {
  std::unique_ptr<RecordBlock> block;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto* const free = free_.FindFrom(slot);
    if (free != nullptr && (free == &free_[slot] || free_bytes_ >= max_free_ / 4)) {
      block = std::move(free->back());
      free->pop_back();
      free_bytes_ -= block->buffer.capacity();
    }
  }
  if (block == nullptr) block = std::make_unique<RecordBlock>();
  block->slot = slot;
  std::shared_ptr<BlockPool> self = shared_from_this();
  return std::shared_ptr<RecordBlock>(
      block.release(), [self](RecordBlock* unused) { self->Give(std::unique_ptr<RecordBlock>(unused)); });
}

void BlockPool::Give(std::unique_ptr<RecordBlock> block) {
  block->records.clear();
  block->last = false;
  block->end = Status();
  block->held_by_batch = 0;
  std::lock_guard<std::mutex> lock(mutex_);
  if (free_bytes_ + block->buffer.capacity() > max_free_) return;
  free_bytes_ += block->buffer.capacity();
  free_[block->slot].push_back(std::move(block));
}

}  // namespace tf_booster
