// How cc/core runs a loop on several threads without knowing whose threads they are: TensorFlow's pool under a kernel,
// std::thread in tests, the caller alone otherwise.
#ifndef TF_BOOSTER_CC_CORE_BASE_PARALLEL_FOR_H_
#define TF_BOOSTER_CC_CORE_BASE_PARALLEL_FOR_H_

#include <cstdint>

#include "cc/core/base/function_ref.h"

namespace tf_booster {

class ParallelFor {
 public:
  virtual ~ParallelFor() = default;

  // The number of threads that may work at once, the caller among them; at least 1.
  virtual int num_threads() const = 0;

  // Calls body(begin, end) on disjoint ranges that cover [0, total), possibly at the same time from several threads,
  // and returns when all are done. `cost_ns` is what one unit costs, in nanoseconds: short loops stay on the caller's
  // thread.
  virtual void Run(int64_t total, int64_t cost_ns, FunctionRef<void(int64_t begin, int64_t end)> body) = 0;
};

// Everything on the caller's thread.
class SerialFor final : public ParallelFor {
 public:
  int num_threads() const override { return 1; }
  void Run(int64_t total, int64_t, FunctionRef<void(int64_t, int64_t)> body) override {
    if (total > 0) body(0, total);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_PARALLEL_FOR_H_
