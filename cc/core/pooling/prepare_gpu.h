// The ids of many lookups in the card's memory, pruned, filled, sorted by row and without duplicates.
//
// The results are those of lookup_input.h and Unique on the CPU, ids in the order of first sight too: a hash set keeps
// the first place of each id by an atomic minimum, and places are numbered by a sum over them, so that nothing depends
// on scheduling.
#ifndef TF_BOOSTER_CC_CORE_POOLING_PREPARE_GPU_H_
#define TF_BOOSTER_CC_CORE_POOLING_PREPARE_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/pooling/lookup_input.h"

namespace tf_booster {
namespace gpu {

inline constexpr int64_t kMaxLeadingDims = 4;
// Values and rows of all lookups together.
inline constexpr int64_t kMaxPrepared = int64_t{1} << 28;

// One lookup. Source: of the values, int32_t or int64_t; Id: of the ids, as wide or wider. Pointers are to the card's
// memory; what they mean is as in LookupInput.
template <class Source, class Id>
struct PrepareJob {
  const Source* values = nullptr;
  int64_t n = 0;
  const float* weights = nullptr;
  int64_t default_id = 0;
  const int64_t* indices = nullptr;  // Null: dense.
  int64_t rank = 2;
  int64_t leading_dims = 1;
  int64_t shape[kMaxLeadingDims] = {};  // Of the leading dimensions.
  int64_t rows = 0;
  int64_t width = 0;

  // Outputs: [rows + 1]; [rows], or null.
  int32_t* row_splits = nullptr;
  bool* row_is_empty = nullptr;
  // Outputs of the second half, of the sizes that the first half tells: [places], [distinct], [places] or null.
  int32_t* idx = nullptr;
  Id* ids = nullptr;
  float* kept_weights = nullptr;
};

struct PrepareCounts {
  int32_t places = 0;
  int32_t distinct = 0;
};

// What the card found wrong with the rows of a lookup.
struct PrepareError {
  int lookup = -1;     // None.
  bool falls = false;  // Rows fall where they must not; otherwise a row is outside of the batch.
};

// The last row that the indices of each lookup name, -1 for none; waits for the card. It tells the number of rows where
// empty ones are not filled. scratch: 8 bytes a lookup.
template <class Source, class Id>
const char* ReadLastRows(const std::vector<PrepareJob<Source, Id>>& jobs, void* scratch, void* stream,
                         std::vector<int64_t>* rows);

// The first half: all but idx, ids and weights. Waits for the card once, for the counts of all lookups. Values and rows
// together are kMaxPrepared at most. `scratch`: PrepareScratchBytes() bytes, which both halves share.
template <class Source, class Id>
const char* PrepareLookups(const std::vector<PrepareJob<Source, Id>>& jobs, const LookupRules& rules, void* scratch,
                           void* stream, std::vector<PrepareCounts>* counts, PrepareError* error);

// The second half. Starts on `stream` and does not wait.
template <class Source, class Id>
const char* FinishLookupsAsync(const std::vector<PrepareJob<Source, Id>>& jobs, const LookupRules& rules, void* scratch,
                               void* stream, const std::vector<PrepareCounts>& counts);

template <class Source, class Id>
int64_t PrepareScratchBytes(const std::vector<PrepareJob<Source, Id>>& jobs, const LookupRules& rules);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_PREPARE_GPU_H_
