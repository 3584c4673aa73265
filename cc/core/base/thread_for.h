// ParallelFor on threads of its own, started for each loop, so only fit for long ones: of tests and benchmarks, and
// those that wait for a disk.
#ifndef TF_BOOSTER_CC_CORE_BASE_THREAD_FOR_H_
#define TF_BOOSTER_CC_CORE_BASE_THREAD_FOR_H_

#include <algorithm>
#include <thread>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

class ThreadFor final : public ParallelFor {
 public:
  explicit ThreadFor(int num_threads) : num_threads_(num_threads) {}

  int num_threads() const override { return num_threads_; }

  void Run(int64_t total, int64_t, FunctionRef<void(int64_t, int64_t)> body) override {
    const int64_t parts = std::min<int64_t>(num_threads_, total);
    if (parts <= 1) {
      if (total > 0) body(0, total);
      return;
    }
    std::vector<std::thread> threads;
    for (int64_t p = 1; p < parts; ++p) {
      threads.emplace_back([=] { body(total * p / parts, total * (p + 1) / parts); });
    }
    body(0, total / parts);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const int num_threads_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_THREAD_FOR_H_
