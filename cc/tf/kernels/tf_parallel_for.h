// cc/core's loops on the worker threads of a kernel's device.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TF_PARALLEL_FOR_H_
#define TF_BOOSTER_CC_TF_KERNELS_TF_PARALLEL_FOR_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/base/parallel_for.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tf_booster {

class TfParallelFor final : public ParallelFor {
 public:
  explicit TfParallelFor(tensorflow::OpKernelContext* ctx)
      : TfParallelFor(ctx->device()->tensorflow_cpu_worker_threads()->workers) {}
  explicit TfParallelFor(tensorflow::thread::ThreadPool* workers) : workers_(workers) {}

  int num_threads() const override { return std::max(1, workers_->NumThreads()); }

  void Run(int64_t total, int64_t cost_ns, FunctionRef<void(int64_t, int64_t)> body) override {
    if (total <= 0) return;
    const int64_t cost = std::max<int64_t>(1, cost_ns);
    if (num_threads() == 1 || total / 2 < kShardNs / cost) return body(0, total);
    // Twice as many shards as threads, so that one late thread costs half a share; but none shorter than kShardNs.
    const int64_t share = (total + 2 * num_threads() - 1) / (2 * num_threads());
    const int64_t block = std::min(total, std::max(share, kShardNs / cost));
    using tensorflow::thread::ThreadPool;
    workers_->ParallelFor(total,
                          ThreadPool::SchedulingParams(ThreadPool::SchedulingStrategy::kFixedBlockSize, {}, block),
                          [&body](int64_t begin, int64_t end) { body(begin, end); });
  }

 private:
  // Handing a closure to another thread and waiting for it costs 5 to 10 us; a shard must be well above that.
  static constexpr int64_t kShardNs = 50000;

  tensorflow::thread::ThreadPool* const workers_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TF_PARALLEL_FOR_H_
