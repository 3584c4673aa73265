// Atomic operations on 32-bit words that host and device share. Relaxed: kernels order themselves by the stream.
#ifndef TF_BOOSTER_CC_CORE_GPU_ATOMICS_H_
#define TF_BOOSTER_CC_CORE_GPU_ATOMICS_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {
namespace gpu {

// Puts `desired` in the place of `expected`; what was there before.
TFB_HOST_DEVICE int32_t AtomicCompareExchange(int32_t* word, int32_t expected, int32_t desired) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(word, expected, desired);
#else
  __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
#endif
}

// The smaller one of *word and `value` from now on.
TFB_HOST_DEVICE void AtomicMin(int32_t* word, int32_t value) {
#if defined(__CUDA_ARCH__)
  atomicMin(word, value);
#else
  int32_t now = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (value < now && !__atomic_compare_exchange_n(word, &now, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

// The larger one.
TFB_HOST_DEVICE void AtomicMax(int32_t* word, int32_t value) {
#if defined(__CUDA_ARCH__)
  atomicMax(word, value);
#else
  int32_t now = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (value > now && !__atomic_compare_exchange_n(word, &now, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_ATOMICS_H_
