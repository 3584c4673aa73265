#include "cc/core/hash_table/gpu/card_memory.h"

#include <cuda_runtime.h>

#include "cc/core/hash_table/memory_limit.h"

namespace tf_booster {
namespace {

class Pinned final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    int64_t left = 0;
    if (!MachineMemory()->Grant(static_cast<int64_t>(bytes), &left)) return nullptr;
    void* memory = nullptr;
    if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped) == cudaSuccess) return memory;
    cudaGetLastError();  // Or the next launch would report it.
    return nullptr;
  }
  void Free(void* memory, size_t) override {
    if (memory == nullptr) return;
    cudaDeviceSynchronize();
    cudaFreeHost(memory);
  }
};

}  // namespace

int64_t CardBytes() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();  // Or the next launch would report it.
  return static_cast<int64_t>(total);
}

Allocator* PinnedMemory() {
  static Pinned memory;
  return &memory;
}

}  // namespace tf_booster
