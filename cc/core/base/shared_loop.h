// A loop whose shards are taken by whoever comes: the caller takes them one after another, and so does each helper that
// a pool of threads lends, as soon as it wakes up. A helper that comes late (a sleeping thread takes 50 us) finds
// nothing left and nobody has waited for it, so a loop is never slower than on one thread by more than the asking.
//
//   auto loop = std::make_shared<SharedLoop>(total, block, body);
//   pool->Schedule([loop] { loop->Help([] {}); });
//   loop->RunAndWait();
#ifndef TF_BOOSTER_CC_CORE_BASE_SHARED_LOOP_H_
#define TF_BOOSTER_CC_CORE_BASE_SHARED_LOOP_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "cc/core/base/function_ref.h"

namespace tf_booster {

class SharedLoop {
 public:
  // Calls body(begin, end) on ranges of `block` units, the last one shorter, that cover [0, total).
  SharedLoop(int64_t total, int64_t block, FunctionRef<void(int64_t begin, int64_t end)> body)
      : total_(total), block_(block), body_(body), left_((total + block - 1) / block) {}

  int64_t num_blocks() const { return (total_ + block_ - 1) / block_; }

  // Any thread, at any time, even when the loop is long over: `body` is called only while RunAndWait waits for it. So
  // is `begun`, once, if there is anything left to do.
  template <class Begun>
  void Help(Begun begun) {
    bool first = true;
    for (int64_t begin; (begin = next_.fetch_add(block_, std::memory_order_relaxed)) < total_;) {
      if (first) begun();
      first = false;
      body_(begin, std::min(begin + block_, total_));
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard<std::mutex> lock(mutex_);
        done_ = true;
        changed_.notify_all();
      }
    }
  }

  // The caller's share; returns when all is done.
  void RunAndWait() {
    Help([] {});
    // A block that another thread has begun is nearly done as a rule, and to be woken up takes 15 us.
    const auto awake = std::chrono::steady_clock::now() + kAwake;
    while (left_.load(std::memory_order_acquire) > 0) {
      if (std::chrono::steady_clock::now() > awake) return Sleep();
      std::this_thread::yield();
    }
  }

 private:
  static constexpr std::chrono::microseconds kAwake{40};

  void Sleep() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }

  const int64_t total_;
  const int64_t block_;
  const FunctionRef<void(int64_t, int64_t)> body_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> left_;  // Blocks that are not done.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_SHARED_LOOP_H_
