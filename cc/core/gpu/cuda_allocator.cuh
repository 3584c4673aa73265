// The card's memory for tests and benchmarks; under TensorFlow it is TensorFlow's.
#ifndef TF_BOOSTER_CC_CORE_GPU_CUDA_ALLOCATOR_CUH_
#define TF_BOOSTER_CC_CORE_GPU_CUDA_ALLOCATOR_CUH_

#include <cuda_runtime.h>

#include <map>
#include <vector>

#include "cc/core/base/allocator.h"

namespace tf_booster {
namespace gpu {

// By cudaMalloc. cudaFree waits for all kernels, so memory is never taken from under one. Not zeroed: a table does not
// ask for that.
inline Allocator* CudaAllocator() {
  class Cuda final : public Allocator {
   public:
    void* Allocate(size_t bytes) override {
      void* memory = nullptr;
      if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
      cudaGetLastError();  // Or the next launch would report it.
      return nullptr;
    }
    void Free(void* memory, size_t) override { cudaFree(memory); }
  };
  static Cuda allocator;
  return &allocator;
}

// Keeps what was freed, up to a GiB, for the next one of that size, as TensorFlow's allocator does, so that a benchmark
// does not time cudaMalloc: it took half of a step on an H100. For one stream and thread.
inline Allocator* KeptCudaMemory() {
  class Kept final : public Allocator {
   public:
    void* Allocate(size_t bytes) override {
      std::vector<void*>& free = free_[bytes];
      if (free.empty()) return CudaAllocator()->Allocate(bytes);
      void* const memory = free.back();
      free.pop_back();
      return memory;
    }
    void Free(void* memory, size_t bytes) override {
      if (bytes > size_t{1} << 30) return CudaAllocator()->Free(memory, bytes);
      if (memory != nullptr) free_[bytes].push_back(memory);
    }

   private:
    std::map<size_t, std::vector<void*>> free_;
  };
  static Kept allocator;
  return &allocator;
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_CUDA_ALLOCATOR_CUH_
