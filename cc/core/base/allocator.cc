#include "cc/core/base/allocator.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "cc/core/base/huge_page_pieces.h"
#include "cc/core/base/page_committer.h"

namespace tf_booster {
namespace {

constexpr size_t kPieceFrom = size_t{64} << 10;
constexpr size_t kLine = 64;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Never destroyed: a table may outlive the statics of a process that ends.
HugePagePieces& Pieces() {
  static HugePagePieces* const pieces = new HugePagePieces;
  return *pieces;
}

PageCommitter& Committer() {
  static PageCommitter* const committer = new PageCommitter;
  return *committer;
}

class HostAllocatorImpl final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    if (bytes > SIZE_MAX / 2) return nullptr;
    if (bytes >= kHugePage) return MapHugePages(RoundUp(bytes, kHugePage));
    if (bytes >= kPieceFrom) return Pieces().Take(bytes);
    void* memory = std::aligned_alloc(kLine, RoundUp(bytes, kLine));
    if (memory != nullptr) std::memset(memory, 0, RoundUp(bytes, kLine));
    return memory;
  }

  void Free(void* memory, size_t bytes) override {
    if (memory == nullptr) return;
    if (bytes >= kHugePage) {
      Committer().Forget(memory, RoundUp(bytes, kHugePage));
      munmap(memory, RoundUp(bytes, kHugePage));
    } else if (bytes >= kPieceFrom) {
      Pieces().Give(memory, bytes);
    } else {
      std::free(memory);
    }
  }

  void CommitSoon(void* memory, size_t bytes) override { Committer().Ask(memory, bytes); }

  bool LeavePages(void* memory, size_t bytes) override {
    Committer().Forget(memory, bytes);
    return true;
  }
};

}  // namespace

Allocator* HostAllocator() {
  static HostAllocatorImpl allocator;
  return &allocator;
}

}  // namespace tf_booster
