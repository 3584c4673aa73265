// cc/core's loops on the worker threads of a kernel's device: short ones with the caller's help, long ones by
// TensorFlow's own loop, which leaves the caller's processor to the pool's threads.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TF_PARALLEL_FOR_H_
#define TF_BOOSTER_CC_TF_KERNELS_TF_PARALLEL_FOR_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/base/parallel_for.h"
#include "cc/tf/kernels/helped_parallel_for.h"
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
    if (num_threads() == 1 || total < kLongNs / cost) return HelpedParallelFor(workers_).Run(total, cost, body);
    // Twice as many shards as threads, so that one late thread costs half a share.
    const int64_t block = (total + 2 * num_threads() - 1) / (2 * num_threads());
    using tensorflow::thread::ThreadPool;
    workers_->ParallelFor(total,
                          ThreadPool::SchedulingParams(ThreadPool::SchedulingStrategy::kFixedBlockSize, {}, block),
                          [&body](int64_t begin, int64_t end) { body(begin, end); });
  }

 private:
  // Steps of WDL, DeepFM and DLRM on two threads of a virtual machine (Granite Rapids, turns of 20 steps): with help
  // for all loops 8 to 12 % less time at batch 512, up to 8 % more at 2,048, where the next op of TensorFlow's found
  // one thread awake in place of two; with help up to 1 ms 1 to 9 % less and 1 % more to 2 % less.
  static constexpr int64_t kLongNs = 1000000;

  tensorflow::thread::ThreadPool* const workers_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TF_PARALLEL_FOR_H_
