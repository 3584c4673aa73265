// Atomic operations that host and device share. Relaxed: kernels order themselves by the stream.
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

TFB_HOST_DEVICE uint64_t AtomicCompareExchange(uint64_t* word, uint64_t expected, uint64_t desired) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(reinterpret_cast<unsigned long long*>(word), expected, desired);
#else
  __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
#endif
}

// What was there before.
TFB_HOST_DEVICE uint64_t AtomicAdd(uint64_t* word, uint64_t value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(reinterpret_cast<unsigned long long*>(word), value);
#else
  return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

TFB_HOST_DEVICE int32_t AtomicAdd(int32_t* word, int32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(word, value);
#else
  return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

TFB_HOST_DEVICE void AtomicOr(uint64_t* word, uint64_t bits) {
#if defined(__CUDA_ARCH__)
  atomicOr(reinterpret_cast<unsigned long long*>(word), bits);
#else
  __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
#endif
}

// A value that other threads may be changing: never from a first-level cache, which would not see that.
template <class T>
TFB_HOST_DEVICE T LoadRelaxed(const T* word) {
#if defined(__CUDA_ARCH__)
  return *const_cast<const volatile T*>(word);
#else
  return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

template <class T>
TFB_HOST_DEVICE void StoreRelaxed(T* word, T value) {
#if defined(__CUDA_ARCH__)
  *const_cast<volatile T*>(word) = value;
#else
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
#endif
}

// A word that rises: where it is high enough already nothing is written, so that many threads may ask at once.
TFB_HOST_DEVICE void RaiseTo(uint64_t* word, uint64_t value) {
  uint64_t now = LoadRelaxed(word);
  while (value > now) {
    const uint64_t seen = AtomicCompareExchange(word, now, value);
    if (seen == now) return;
    now = seen;
  }
}

// counters[i] += delta, which is the same for all threads that are here together. A warp's threads with one counter
// make one addition: a million new keys of one field would otherwise queue at one address for half a millisecond.
template <class T>
TFB_HOST_DEVICE void CountAt(T* counters, int64_t i, int64_t delta) {
#if defined(__CUDA_ARCH__)
  const unsigned active = __activemask();
  const unsigned same = __match_any_sync(active, reinterpret_cast<unsigned long long>(counters + i));
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  if (lane == __ffs(same) - 1) AtomicAdd(counters + i, static_cast<T>(delta * __popc(same)));
#else
  AtomicAdd(counters + i, static_cast<T>(delta));
#endif
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_ATOMICS_H_
