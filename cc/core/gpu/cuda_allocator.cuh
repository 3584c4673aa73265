// The card's memory by cudaMalloc, for tests and benchmarks; under TensorFlow it is TensorFlow's.
#ifndef TF_BOOSTER_CC_CORE_GPU_CUDA_ALLOCATOR_CUH_
#define TF_BOOSTER_CC_CORE_GPU_CUDA_ALLOCATOR_CUH_

#include <cuda_runtime.h>

#include "cc/core/base/allocator.h"

namespace tf_booster {
namespace gpu {

// cudaFree waits for all kernels, so memory is never taken from under one. Not zeroed: a table does not ask for that.
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

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_CUDA_ALLOCATOR_CUH_
