#include "cc/core/hash_table/gpu/card_memory.h"

#include <cuda_runtime.h>

#include <mutex>
#include <unordered_map>

#include "cc/core/hash_table/memory_limit.h"

namespace tf_booster {
namespace {

class Pinned final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    int64_t left = 0;
    if (!MachineMemory()->Grant(static_cast<int64_t>(bytes), &left)) return nullptr;
    void* memory = nullptr;
    int card = 0;
    if (cudaGetDevice(&card) == cudaSuccess &&
        cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped) == cudaSuccess) {
      std::lock_guard<std::mutex> lock(mutex_);
      card_of_[memory] = card;
      return memory;
    }
    cudaGetLastError();  // Or the next launch would report it.
    return nullptr;
  }

  // A table may end in a thread that has another card.
  void Free(void* memory, size_t) override {
    if (memory == nullptr) return;
    int own = 0, card = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      card = card_of_.extract(memory).mapped();
    }
    cudaGetDevice(&own);
    cudaSetDevice(card);
    cudaDeviceSynchronize();
    cudaFreeHost(memory);
    cudaSetDevice(own);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, int> card_of_;  // Of the thread that asked for the memory: a table's own.
};

}  // namespace

int64_t CardBytes() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();  // Or the next launch would report it.
  return static_cast<int64_t>(total);
}

Allocator* PinnedMemory() {
  static Pinned* const memory = new Pinned;  // Never destroyed: a table may outlive the statics of a process that ends.
  return memory;
}

}  // namespace tf_booster
