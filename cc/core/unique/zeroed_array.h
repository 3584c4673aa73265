// An array of zeros, aligned to cache lines, that is cheap to get when it is large: fresh pages from the kernel are
// zero already, and 2 MiB pages cost 512 times fewer faults (filling 16 MB in 4 KiB pages takes longer than all probes
// of a million keys).
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_ZEROED_ARRAY_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_ZEROED_ARRAY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace tf_booster {

// T: any type for which all bits zero is a value.
template <class T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  explicit ZeroedArray(size_t size) : bytes_(size * sizeof(T)) {
    if (bytes_ < kMapped) {
      data_ = static_cast<T*>(std::aligned_alloc(kLine, (bytes_ + kLine - 1) / kLine * kLine));
      if (data_ == nullptr) throw std::bad_alloc();
      std::memset(static_cast<void*>(data_), 0, bytes_);
      return;
    }
    // A whole number of huge pages, and one more so that the array can start on the boundary of one.
    mapped_bytes_ = (bytes_ + 2 * kHugePage - 1) / kHugePage * kHugePage;
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) {
      mapped_ = nullptr;
      throw std::bad_alloc();
    }
    const uintptr_t start = (reinterpret_cast<uintptr_t>(mapped_) + kHugePage - 1) / kHugePage * kHugePage;
    data_ = reinterpret_cast<T*>(start);
    madvise(data_, bytes_, MADV_HUGEPAGE);  // Refused on some kernels; then the pages are small, and all works.
  }
  ZeroedArray(ZeroedArray&& other) noexcept { Swap(other); }
  ZeroedArray& operator=(ZeroedArray&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~ZeroedArray() {
    if (mapped_ != nullptr) {
      munmap(mapped_, mapped_bytes_);
    } else {
      std::free(data_);
    }
  }

  T* data() const { return data_; }
  size_t size() const { return bytes_ / sizeof(T); }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  static constexpr size_t kLine = 64;
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr size_t kMapped = kHugePage;

  void Swap(ZeroedArray& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
  }

  T* data_ = nullptr;
  size_t bytes_ = 0;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_ZEROED_ARRAY_H_
