#include "cc/core/record_reader/read_ahead.h"

#include <sys/resource.h>

#include <algorithm>

namespace tf_booster {

ReadAhead::By ReadAhead::by() const {
  const double parsers = parsers_.load(std::memory_order_relaxed);
  if (uncompress_ && processors_ > 1) return By::kOwnThreads;
  if (slow_reads_.load(std::memory_order_relaxed) > 0 || parsers < processors_ || parsers > 2) return By::kOwnThreads;
  return parsers > 1 ? By::kParsers : By::kNobody;
}

void ReadAhead::Offer(RecordFile* file) {
  std::lock_guard<std::mutex> lock(mutex_);
  offered_.push_back(file);
  num_offered_.store(offered_.size(), std::memory_order_relaxed);
}

bool ReadAhead::Withdraw(RecordFile* file) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find(offered_.begin(), offered_.end(), file);
  if (found == offered_.end()) return false;
  offered_.erase(found);
  num_offered_.store(offered_.size(), std::memory_order_relaxed);
  return true;
}

RecordFile* ReadAhead::Take() {
  if (num_offered_.load(std::memory_order_relaxed) == 0) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  if (offered_.empty()) return nullptr;
  RecordFile* const file = offered_.front();
  offered_.pop_front();
  num_offered_.store(offered_.size(), std::memory_order_relaxed);
  return file;
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
