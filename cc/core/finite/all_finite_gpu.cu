#include "cc/core/finite/all_finite_gpu.h"

#include "cc/core/finite/all_finite_body.h"
#include "cc/core/gpu/cuda_queue.cuh"

namespace tf_booster {
namespace gpu {

template <class Word>
const char* AreAllFiniteAsync(const std::vector<Words<Word>>& all, Word exponent, bool* result, void* stream) {
  CudaQueue queue(stream);
  AreAllFiniteOn(queue, all, exponent, result);
  return queue.error();
}

template const char* AreAllFiniteAsync(const std::vector<Words<uint16_t>>&, uint16_t, bool*, void*);
template const char* AreAllFiniteAsync(const std::vector<Words<uint32_t>>&, uint32_t, bool*, void*);
template const char* AreAllFiniteAsync(const std::vector<Words<uint64_t>>&, uint64_t, bool*, void*);

}  // namespace gpu
}  // namespace tf_booster
