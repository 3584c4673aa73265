// A batch of records, cut into pieces, which several threads share.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_BATCH_PLAN_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_BATCH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/parallel_for.h"

namespace tf_booster {

struct BatchPlan {
  size_t threads = 1;
  std::vector<size_t> bounds;  // Of pieces; see cc/core/base/cut_by_bytes.h.
  size_t bytes = 0;
  double ns = 0;  // What all of it will cost.

  // The next piece of the thread that asks; false: none is left.
  using Next = FunctionRef<bool(size_t* begin, size_t* end)>;

  size_t pieces() const { return bounds.size() - 1; }
  // Calls `walk` on each thread that comes. Returns the nanoseconds that all of them took together.
  int64_t Walk(ParallelFor& parallel_for, FunctionRef<void(Next next)> walk) const;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_BATCH_PLAN_H_
