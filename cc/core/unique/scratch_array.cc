#include "cc/core/unique/scratch_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace tf_booster {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLarge = kHugePage / 2;  // From here on on pages of its own.
constexpr size_t kMostKept = size_t{64} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A whole number of huge pages, at the boundary of one.
ScratchBlock Map(size_t bytes) {
  bytes = RoundUp(bytes, kHugePage);
  void* mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t data = RoundUp(begin, kHugePage);
  if (data > begin) munmap(mapped, data - begin);
  const uintptr_t end = begin + bytes + kHugePage;
  if (end > data + bytes) munmap(reinterpret_cast<void*>(data + bytes), end - data - bytes);
  madvise(reinterpret_cast<void*>(data), bytes, MADV_HUGEPAGE);  // Some kernels refuse; then the pages are small.
  return {reinterpret_cast<void*>(data), bytes, true};
}

class Pool {
 public:
  ScratchBlock Take(size_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto best = kept_.end();
      for (auto it = kept_.begin(); it != kept_.end(); ++it) {
        // Not one of more than four times the size: a larger request may be next.
        if (it->bytes < bytes || it->bytes > 4 * RoundUp(bytes, kHugePage)) continue;
        if (best == kept_.end() || it->bytes < best->bytes) best = it;
      }
      if (best != kept_.end()) {
        const ScratchBlock block = *best;
        kept_bytes_ -= block.bytes;
        kept_.erase(best);
        return block;
      }
    }
    return Map(bytes);
  }

  void Give(ScratchBlock block) {
    block.zero = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (kept_bytes_ + block.bytes <= kMostKept) {
        kept_bytes_ += block.bytes;
        kept_.push_back(block);
        return;
      }
    }
    munmap(block.data, block.bytes);
  }

 private:
  std::mutex mutex_;
  std::vector<ScratchBlock> kept_;
  size_t kept_bytes_ = 0;
};

// Never destroyed: threads may still hold blocks when the process ends.
Pool& GlobalPool() {
  static Pool* pool = new Pool;
  return *pool;
}

}  // namespace

ScratchBlock TakeScratch(size_t bytes) {
  bytes = RoundUp(std::max<size_t>(bytes, 1), kLine);  // First: GiveScratch goes by the block's bytes.
  if (bytes >= kLarge) return GlobalPool().Take(bytes);
  void* data = std::aligned_alloc(kLine, bytes);
  if (data == nullptr) throw std::bad_alloc();
  return {data, bytes, false};
}

void GiveScratch(const ScratchBlock& block) {
  if (block.bytes < kLarge) {
    std::free(block.data);
  } else {
    GlobalPool().Give(block);
  }
}

}  // namespace tf_booster
