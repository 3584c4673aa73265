// Where tables take their memory from. The GPU's tables bring an allocator of their own.
#ifndef TF_BOOSTER_CC_CORE_BASE_ALLOCATOR_H_
#define TF_BOOSTER_CC_CORE_BASE_ALLOCATOR_H_

#include <cstddef>

namespace tf_booster {

class Allocator {
 public:
  virtual ~Allocator() = default;

  // Zeroed memory aligned to 64 bytes, or null where there is none. Callable from any thread.
  virtual void* Allocate(size_t bytes) = 0;

  // Takes back what Allocate(bytes) gave; null is fine.
  virtual void Free(void* memory, size_t bytes) = 0;

  // Says that whole huge pages of a block of 2 MiB or more are about to be touched, so that they can be committed
  // meanwhile. What they hold stays.
  virtual void CommitSoon(void* /*memory*/, size_t /*bytes*/) {}

  // Before the caller maps something else over whole huge pages of a block of 2 MiB or more, which Free takes back as
  // it would have. False: they are not to be mapped over.
  virtual bool LeavePages(void* /*memory*/, size_t /*bytes*/) { return false; }
};

// Host memory. Blocks of 2 MiB and more are mapped: their pages are committed when they are first touched, so a block
// that is larger than what is used of it costs addresses only. They are aligned for huge pages and ask for them: a
// random row otherwise costs a TLB miss beside the cache miss. From 64 KiB on, blocks are pieces of such pages.
Allocator* HostAllocator();

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_ALLOCATOR_H_
