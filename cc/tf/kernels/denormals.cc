// For Python, by ctypes: a thread that takes numbers too small for a normal float for zero, as TensorFlow's own do.
#include <xmmintrin.h>

#include <cstdint>

namespace {

// Of results, and of operands.
constexpr uint32_t kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

}  // namespace

// From now on, on this thread. Gives what tf_booster_restore_denormals takes.
extern "C" __attribute__((visibility("default"))) uint32_t tf_booster_flush_denormals() {
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(before | kFlushToZero | kDenormalsAreZero);
  return before;
}

extern "C" __attribute__((visibility("default"))) void tf_booster_restore_denormals(uint32_t before) {
  _mm_setcsr((_mm_getcsr() & ~(kFlushToZero | kDenormalsAreZero)) | (before & (kFlushToZero | kDenormalsAreZero)));
}
