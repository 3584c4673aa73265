// An array that lives for one call and is cheap to get although it is large.
//
// Large blocks lie on 2 MiB pages (random access to a 16 MB table on 4 KiB pages spends most of its time in page walks)
// and are kept for the next call: a fresh one costs 1.5 to 3 ns for each key of a batch, in page faults and the
// kernel's zeros.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_SCRATCH_ARRAY_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_SCRATCH_ARRAY_H_

#include <cstddef>
#include <cstring>
#include <utility>

namespace tf_booster {

// Memory of at least so many bytes, aligned to cache lines. Throws std::bad_alloc.
struct ScratchBlock {
  void* data = nullptr;
  size_t bytes = 0;
  bool zero = false;  // Fresh from the kernel.
};
ScratchBlock TakeScratch(size_t bytes);
void GiveScratch(const ScratchBlock& block);

enum class ScratchContents { kZeros, kUndefined };

// T: trivial; zeros are those of memset.
template <class T>
class ScratchArray {
 public:
  ScratchArray() = default;
  explicit ScratchArray(size_t size, ScratchContents contents = ScratchContents::kZeros)
      : block_(TakeScratch(size * sizeof(T))), size_(size) {
    if (contents == ScratchContents::kZeros && !block_.zero) std::memset(block_.data, 0, size * sizeof(T));
  }
  ScratchArray(ScratchArray&& other) noexcept { Swap(other); }
  ScratchArray& operator=(ScratchArray&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~ScratchArray() {
    if (block_.data != nullptr) GiveScratch(block_);
  }

  T* data() const { return static_cast<T*>(block_.data); }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data()[i]; }

 private:
  void Swap(ScratchArray& other) {
    std::swap(block_, other.block_);
    std::swap(size_, other.size_);
  }

  ScratchBlock block_;
  size_t size_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_SCRATCH_ARRAY_H_
