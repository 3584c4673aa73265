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

  // The caller works, too, and waits for nobody who has not begun (see SharedLoop).
  void Run(int64_t total, int64_t cost_ns, FunctionRef<void(int64_t, int64_t)> body) override;

 private:
  tensorflow::thread::ThreadPool* const workers_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TF_PARALLEL_FOR_H_
