// Floats that tests of the GPU's kernels give these and compare, on the host or on a card.
#ifndef TF_BOOSTER_CC_CORE_GPU_FLOAT_ARRAYS_H_
#define TF_BOOSTER_CC_CORE_GPU_FLOAT_ARRAYS_H_

#include <cstdint>
#include <cstring>

#include "cc/core/gpu/card_or_host.h"
#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace gpu {

constexpr float kGuard = -12345.0f;  // Where nothing is to be written.

// Of different sizes, so that sums depend on the order. The array begins `shift` floats before them.
inline Array<float> Numbers(int64_t n, uint64_t seed, int64_t shift) {
  Array<float> numbers(n + shift);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = Mix64(seed * 1000003 + static_cast<uint64_t>(i));
    numbers[shift + i] = (static_cast<float>(bits % 2001) / 1000 - 1) * static_cast<float>(1 << (bits >> 32) % 8);
  }
  return numbers;
}

inline bool Same(const Array<float>& a, const Array<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_FLOAT_ARRAYS_H_
