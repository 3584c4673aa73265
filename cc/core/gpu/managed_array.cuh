// Arrays that host and card both reach, for tests and benchmarks.
#ifndef TF_BOOSTER_CC_CORE_GPU_MANAGED_ARRAY_CUH_
#define TF_BOOSTER_CC_CORE_GPU_MANAGED_ARRAY_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <new>
#include <vector>

namespace tf_booster {
namespace gpu {

template <class T>
struct ManagedAllocator {
  using value_type = T;
  ManagedAllocator() = default;
  template <class U>
  ManagedAllocator(const ManagedAllocator<U>&) {}

  T* allocate(size_t n) {
    void* memory = nullptr;
    if (cudaMallocManaged(&memory, n * sizeof(T) + 1) != cudaSuccess) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { cudaFree(memory); }
  template <class U>
  bool operator==(const ManagedAllocator<U>&) const {
    return true;
  }
  template <class U>
  bool operator!=(const ManagedAllocator<U>&) const {
    return false;
  }
};

template <class T>
using ManagedArray = std::vector<T, ManagedAllocator<T>>;

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_MANAGED_ARRAY_CUH_
