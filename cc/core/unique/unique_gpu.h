// Distinct values of arrays in the card's memory, in the order of first sight.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_GPU_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/host_device.h"
#include "cc/core/hash_table/table_layout.h"

namespace tf_booster {
namespace gpu {

// Values and their fields. Values of two fields differ.
template <class T>
struct UniqueValues {
  const T* values = nullptr;
  const uint32_t* fields = nullptr;  // Of each value; kNoField: it is none, and its idx is undefined.
  uint32_t field = 0;                // Of all, where `fields` is null.
  bool skip_missing = false;         // Values of -1 are none, and get idx -1.

  TFB_HOST_DEVICE uint32_t FieldOf(int64_t i) const {
    return skip_missing && values[i] == T(-1) ? kNoField : fields == nullptr ? field : fields[i];
  }
};

// One array of values. Several make one batch, whose places go on from one to the next.
template <class T, class Index>
struct UniqueJob : UniqueValues<T> {
  Index* idx = nullptr;  // [units]
  int64_t units = 0;
  int64_t first = 0;  // Set by the algorithm: the place of the first value.
};

// What is distinct; behind the last one, up to the size of the batch: fields are kNoField, counts 0.
template <class T>
struct UniqueOutputs {
  T* values = nullptr;
  uint32_t* fields = nullptr;  // Null: not wanted, as
  int64_t* counts = nullptr;   // are counts.
};

// Each starts on `stream` and returns null, or CUDA's message. `scratch` has UniqueScratchBytes() bytes, which stay the
// same from Find to Write. Find waits for the card where a count is wanted, which is the size of outputs; without one
// outputs have the size of the batch.
template <class T, class Index>
int64_t UniqueScratchBytes(const std::vector<UniqueJob<T, Index>>& jobs);
template <class T, class Index>
const char* UniqueFindAsync(const std::vector<UniqueJob<T, Index>>& jobs, void* scratch, void* stream, int64_t* count);
template <class T, class Index>
const char* UniqueWriteAsync(const std::vector<UniqueJob<T, Index>>& jobs, int64_t first_idx,
                             const UniqueOutputs<T>& outputs, void* scratch, void* stream);
// The first n counts as an output has them.
template <class Index>
const char* CopyCountsAsync(const int64_t* counts, int64_t n, Index* out, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_GPU_H_
