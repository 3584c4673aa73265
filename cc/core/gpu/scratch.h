// Arrays in one block of memory, which TensorFlow's allocator gives.
#ifndef TF_BOOSTER_CC_CORE_GPU_SCRATCH_H_
#define TF_BOOSTER_CC_CORE_GPU_SCRATCH_H_

#include <cstdint>

namespace tf_booster {
namespace gpu {

// An algorithm takes its arrays twice: from null, to learn how many bytes it wants, and then from memory.
class Scratch {
 public:
  explicit Scratch(void* memory) : memory_(static_cast<char*>(memory)) {}

  // n values of T, undefined, aligned to 256 bytes. Null while it only measures.
  template <class T>
  T* Take(int64_t n) {
    char* place = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (n * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(place);
  }

  int64_t used() const { return used_; }

 private:
  static constexpr int64_t kAlignment = 256;
  char* memory_;
  int64_t used_ = 0;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_SCRATCH_H_
