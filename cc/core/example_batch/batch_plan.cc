#include "cc/core/example_batch/batch_plan.h"

#include <atomic>
#include <chrono>

#include "cc/core/base/work_spans.h"

namespace tf_booster {

int64_t BatchPlan::Walk(ParallelFor& parallel_for, FunctionRef<void(Next)> walk) const {
  std::atomic<int64_t> busy_ns{0};
  WorkSpans work(pieces(), threads);
  const auto cost = static_cast<int64_t>(ns / static_cast<double>(threads));
  parallel_for.Run(static_cast<int64_t>(threads), cost, [&](int64_t first, int64_t last) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t thread = first; thread < last; ++thread) {
      WorkSpans::Walker walker(&work);
      const auto next = [&](size_t* begin, size_t* end) {
        size_t piece;
        if (!walker.Next(&piece)) return false;
        *begin = bounds[piece];
        *end = bounds[piece + 1];
        return true;
      };
      walk(next);
    }
    busy_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  });
  return busy_ns;
}

}  // namespace tf_booster
