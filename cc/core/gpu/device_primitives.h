// Sorts and sums of arrays on the card, by CUB. One source compiles CUB's templates, for they take longest of all.
#ifndef TF_BOOSTER_CC_CORE_GPU_DEVICE_PRIMITIVES_H_
#define TF_BOOSTER_CC_CORE_GPU_DEVICE_PRIMITIVES_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {
namespace gpu {

// Memory that the two below want. Key: uint32_t or uint64_t.
template <class Key>
int64_t SortScratchBytes(int64_t n);
int64_t SumScratchBytes(int64_t n);

// Sorts by the lowest `bits` bits of the keys; equal ones keep their order. Starts on `stream` and does not wait.
// Returns null, or CUDA's message where nothing could be started.
template <class Key>
const char* SortPairsAsync(const Key* keys, Key* sorted_keys, const int32_t* values, int32_t* sorted_values, int64_t n,
                           int bits, void* scratch, void* stream);

// Values to be summed up that no array has: 1 where words[at[i]] is i + 1. at below 0: none.
struct OwnWords {
  const int32_t* at;
  const int32_t* words;
  TFB_HOST_DEVICE int32_t operator[](int64_t i) const {
    return at[i] >= 0 && words[at[i]] == static_cast<int32_t>(i + 1) ? 1 : 0;
  }
};

// sums[i] = values[0] + … + values[i].
const char* InclusiveSumAsync(const int32_t* values, int32_t* sums, int64_t n, void* scratch, void* stream);
const char* InclusiveSumAsync(const OwnWords& values, int32_t* sums, int64_t n, void* scratch, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_DEVICE_PRIMITIVES_H_
