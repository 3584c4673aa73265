// Distinct values of an array, in no promised order.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_H_

#include <cstdint>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"

namespace tf_booster {

// Called once, with the number of distinct values u: sets *values (room for u) and, if counts were asked for, *counts.
template <class T>
using UniqueAllocateFn = FunctionRef<Status(int64_t u, T** values, int64_t** counts)>;

struct UniqueOptions {
  int64_t first = 0;         // idx[i] = first + the place of x[i]. A probe sets (group << 40) + 1 and has its codes.
  bool with_counts = false;  // Also how often each value occurs.
  bool in_order = false;     // `values` in the order of first occurrence, on one thread.
};

// values[idx[i] - first] == x[i]; each value occurs once in `values`. T and Index: int32_t or int64_t; every value is
// valid. The order of `values` is a function of x, of options and of pf.num_threads(). InvalidArgument: an idx would
// not fit Index. Errors of `allocate` are passed on; idx is then undefined.
template <class T, class Index>
Status Unique(const T* x, int64_t n, const UniqueOptions& options, Index* idx, UniqueAllocateFn<T> allocate,
              ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_H_
