#include "cc/core/base/allocator.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tf_booster {
namespace {

constexpr size_t kMapFrom = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLine = 64;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

void* Map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Maps one huge page more than asked and gives the ends back, so that the block starts on a huge page's border.
void* MapHuge(size_t bytes) {
  char* memory = static_cast<char*>(Map(bytes + kHugePage));
  if (memory == nullptr) return nullptr;
  char* begin = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(memory), kHugePage));
  if (begin > memory) munmap(memory, begin - memory);
  const size_t tail = memory + kHugePage - begin;
  if (tail > 0) munmap(begin + bytes, tail);
  madvise(begin, bytes, MADV_HUGEPAGE);  // A wish: without huge pages all is as right, only slower.
  return begin;
}

class HostAllocatorImpl final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    if (bytes > SIZE_MAX / 2) return nullptr;
    if (bytes >= kHugePage) return MapHuge(RoundUp(bytes, kHugePage));
    if (bytes >= kMapFrom) return Map(bytes);
    void* memory = std::aligned_alloc(kLine, RoundUp(bytes, kLine));
    if (memory != nullptr) std::memset(memory, 0, RoundUp(bytes, kLine));
    return memory;
  }

  void Free(void* memory, size_t bytes) override {
    if (memory == nullptr) return;
    if (bytes >= kMapFrom) {
      munmap(memory, bytes >= kHugePage ? RoundUp(bytes, kHugePage) : bytes);
    } else {
      std::free(memory);
    }
  }
};

}  // namespace

Allocator* HostAllocator() {
  static HostAllocatorImpl allocator;
  return &allocator;
}

}  // namespace tf_booster
