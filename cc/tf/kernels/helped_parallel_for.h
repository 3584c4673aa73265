// cc/core's loops on a pool of threads, as TfParallelFor, but the caller works, too, and waits for nobody who has not
// begun (see SharedLoop). TensorFlow's own loop, with more shards than threads, runs none on the caller's thread: all
// threads have to wake up, 50 us each where they sleep, and the caller after them. For loops of less than a
// millisecond.
#ifndef TF_BOOSTER_CC_TF_KERNELS_HELPED_PARALLEL_FOR_H_
#define TF_BOOSTER_CC_TF_KERNELS_HELPED_PARALLEL_FOR_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/base/parallel_for.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tf_booster {

class HelpedParallelFor final : public ParallelFor {
 public:
  explicit HelpedParallelFor(tensorflow::thread::ThreadPool* workers) : workers_(workers) {}

  int num_threads() const override { return std::max(1, workers_->NumThreads()); }

  void Run(int64_t total, int64_t cost_ns, FunctionRef<void(int64_t, int64_t)> body) override;

 private:
  tensorflow::thread::ThreadPool* const workers_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_HELPED_PARALLEL_FOR_H_
