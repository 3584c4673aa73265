#include "cc/core/record_reader/read_ahead.h"

#include <sys/resource.h>

namespace tf_booster {

bool ReadAhead::by_own_threads() const {
  if (uncompress_ && processors_ > 1) return true;
  const double parsers = parsers_.load(std::memory_order_relaxed);
  return slow_reads_.load(std::memory_order_relaxed) > 0 || parsers < processors_ || parsers > 2;
}

ReadAhead::Watch::~Watch() {
  std::atomic<int>& slow = owner_->slow_reads_;
  if (Waits() != before_) {
    slow.store(kMemory, std::memory_order_relaxed);
  } else if (const int left = slow.load(std::memory_order_relaxed); left > 0) {
    slow.store(left - 1, std::memory_order_relaxed);
  }
}

int64_t ReadAhead::Watch::Waits() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace tf_booster
