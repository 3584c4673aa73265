// One optimizer step on a table: sums the gradients of equal keys, counts and inserts keys, and updates each row in one
// pass.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_APPLY_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_APPLY_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"
#include "cc/core/hash_table/hash_table.h"
#include "cc/core/optimizer/row_optimizer.h"

namespace tf_booster {

// A code names a key of one probe: (group << kCodePlaceBits) | (1 + place in the probe's keys). 0 is no key.
inline constexpr int kCodePlaceBits = 40;

// The outputs of one TableProbe, borrowed.
struct ProbeRef {
  const int64_t* keys = nullptr;
  const uint32_t* fields = nullptr;  // Null: all of field 0. Pairs of field and key are distinct within the probe.
  const int64_t* counts = nullptr;
  const RowHandle* handles = nullptr;
  int64_t size = 0;
};

// The gradient of some lookups, as TensorFlow's IndexedSlices.
struct SparseGradient {
  const int64_t* codes = nullptr;  // [size], in any order, with duplicates; 0 is skipped.
  const float* grads = nullptr;    // [size, dim].
  int64_t size = 0;
};

struct SparseApplyBatch {
  std::vector<ProbeRef> probes;  // probes[g] has the keys of group g. A key may occur in several.
  std::vector<SparseGradient> gradients;
  int64_t grad_dim = 0;          // Columns of the gradients.
  std::vector<uint32_t> fields;  // Those that step; empty: all.
  bool check_numerics = false;   // A NaN or infinity in a gradient is InvalidArgument, and nothing is applied.
};

// Sums gradients of equal keys in the order of their occurrence, whatever the number of threads, and calls
// table.Update with the optimizer's step. Every key of every probe is counted; those without a gradient are not
// updated. InvalidArgument, with nothing applied: a code of no probe, another dim than the table's, an optimizer of
// other slots.
Status SparseApply(HashTable& table, const SparseApplyBatch& batch, const RowOptimizer& optimizer, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_APPLY_H_
