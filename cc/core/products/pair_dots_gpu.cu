#include "cc/core/products/pair_dots_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/products/pair_dots_body.h"

namespace tf_booster {
namespace gpu {

int64_t PairDotsScratchBytes(const PairDotsJob& job) {
  Scratch measure(nullptr);
  PairDotsOnQueue<CudaQueue>(nullptr, job, &measure);
  return measure.used();
}

const char* PairDotsAsync(const PairDotsJob& job, void* scratch, void* stream) {
  CudaQueue queue(stream);
  Scratch memory(scratch);
  PairDotsOnQueue(&queue, job, &memory);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
