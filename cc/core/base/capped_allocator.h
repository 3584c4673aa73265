// Up to so many bytes at a time of another allocator.
#ifndef TF_BOOSTER_CC_CORE_BASE_CAPPED_ALLOCATOR_H_
#define TF_BOOSTER_CC_CORE_BASE_CAPPED_ALLOCATOR_H_

#include <atomic>
#include <cstdint>

#include "cc/core/base/allocator.h"

namespace tf_booster {

class CappedAllocator final : public Allocator {
 public:
  CappedAllocator(Allocator* source, int64_t limit) : source_(source), limit_(limit) {}

  void* Allocate(size_t bytes) override {
    const int64_t wanted = static_cast<int64_t>(bytes);
    const bool fits = taken_.fetch_add(wanted) <= limit_ - wanted;
    void* const memory = fits ? source_->Allocate(bytes) : nullptr;
    if (memory == nullptr) taken_ -= wanted;
    return memory;
  }
  void Free(void* memory, size_t bytes) override {
    if (memory == nullptr) return;
    source_->Free(memory, bytes);
    taken_ -= static_cast<int64_t>(bytes);
  }
  void CommitSoon(void* memory, size_t bytes) override { source_->CommitSoon(memory, bytes); }

  // Of what is taken from now on.
  void SetLimit(int64_t limit) { limit_ = limit; }

 private:
  Allocator* const source_;
  std::atomic<int64_t> limit_;
  std::atomic<int64_t> taken_{0};
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_CAPPED_ALLOCATOR_H_
