#include "cc/tf/kernels/helped_parallel_for.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cc/core/base/shared_loop.h"

namespace tf_booster {
namespace {

// Handing a closure to another thread and waiting for it costs 5 to 10 us; a shard must be well above that.
constexpr int64_t kShardNs = 50000;

// Each thread costs 5 us to wake, so half of the others are woken by the first one that finds work. The pool may be
// gone when one comes that finds none: a step's pool ends with the step.
void AskForHelp(tensorflow::thread::ThreadPool* workers, const std::shared_ptr<SharedLoop>& loop, int64_t helpers) {
  workers->Schedule([workers, loop, helpers] {
    loop->Help([&] {
      const int64_t others = helpers - 1;
      if (others > 0) AskForHelp(workers, loop, (others + 1) / 2);
      if (others > 1) AskForHelp(workers, loop, others / 2);
    });
  });
}

}  // namespace

void HelpedParallelFor::Run(int64_t total, int64_t cost_ns, FunctionRef<void(int64_t, int64_t)> body) {
  if (total <= 0) return;
  const int64_t cost = std::max<int64_t>(1, cost_ns);
  if (num_threads() == 1 || total / 2 < kShardNs / cost) return body(0, total);
  // Twice as many shards as threads, so that one late thread costs half a share; but none shorter than kShardNs.
  const int64_t share = (total + 2 * num_threads() - 1) / (2 * num_threads());
  const int64_t block = std::min(total, std::max(share, kShardNs / cost));
  const auto loop = std::make_shared<SharedLoop>(total, block, body);
  const int64_t helpers = std::min<int64_t>(num_threads(), loop->num_blocks()) - 1;
  if (helpers > 0) AskForHelp(workers_, loop, helpers);
  loop->RunAndWait();
}

}  // namespace tf_booster
