// Distinct (field, id) pairs of several arrays of ids, each of one field: what one probe of a fused table looks up.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_BY_FIELD_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_BY_FIELD_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"

namespace tf_booster {

// Ids of one field. Several arrays may have the same field.
struct FieldIds {
  const int64_t* ids = nullptr;
  int64_t size = 0;
  uint32_t field = 0;
  int64_t* idx = nullptr;     // [size]: where the place of each id goes.
  bool skip_missing = false;  // Ids of -1 are none, and get idx -1.
};

// Where the distinct pairs go, [u] each.
struct DistinctPairs {
  int64_t* ids = nullptr;
  uint32_t* fields = nullptr;
  int64_t* counts = nullptr;  // How often each occurs, if that was asked for.
};

// ids[idx - first] and fields[idx - first] are an id's own, in every array. Pairs of a field stand together, fields in
// the order of their first array. Within a field the order is a function of the ids, of with_counts and of
// pf.num_threads(). `allocate` is called once, with u; its errors are passed on, and idx is then undefined.
Status UniqueByField(const std::vector<FieldIds>& arrays, int64_t first, bool with_counts,
                     FunctionRef<Status(int64_t u, DistinctPairs* out)> allocate, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_BY_FIELD_H_
