#include "cc/core/unique/unique_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/unique/unique_body.h"

namespace tf_booster {
namespace gpu {

template <class T, class Index>
int64_t UniqueScratchBytes(const std::vector<UniqueJob<T, Index>>& jobs) {
  Scratch measure(nullptr);
  UniqueOnQueue<CudaQueue, T, Index>(jobs, &measure);
  return measure.used();
}

template <class T, class Index>
const char* UniqueFindAsync(const std::vector<UniqueJob<T, Index>>& jobs, void* scratch, void* stream, int64_t* count) {
  CudaQueue queue(stream);
  Scratch memory(scratch);
  UniqueOnQueue<CudaQueue, T, Index> unique(jobs, &memory);
  unique.Find(queue);
  if (count != nullptr) *count = unique.Count(queue);
  return queue.error();
}

template <class T, class Index>
const char* UniqueWriteAsync(const std::vector<UniqueJob<T, Index>>& jobs, int64_t first_idx,
                             const UniqueOutputs<T>& outputs, void* scratch, void* stream) {
  CudaQueue queue(stream);
  Scratch memory(scratch);
  UniqueOnQueue<CudaQueue, T, Index> unique(jobs, &memory);
  unique.Write(queue, first_idx, outputs);
  return queue.error();
}

template <class Index>
const char* CopyCountsAsync(const int64_t* counts, int64_t n, Index* out, void* stream) {
  CudaQueue queue(stream);
  ForEach(queue, n, CopyCount<Index>{counts, out});
  return queue.error();
}
template const char* CopyCountsAsync(const int64_t*, int64_t, int32_t*, void*);
template const char* CopyCountsAsync(const int64_t*, int64_t, int64_t*, void*);

#define TFB_INSTANTIATE(T, Index)                                                                                  \
  template int64_t UniqueScratchBytes(const std::vector<UniqueJob<T, Index>>&);                                    \
  template const char* UniqueFindAsync(const std::vector<UniqueJob<T, Index>>&, void*, void*, int64_t*);           \
  template const char* UniqueWriteAsync(const std::vector<UniqueJob<T, Index>>&, int64_t, const UniqueOutputs<T>&, \
                                        void*, void*);
TFB_INSTANTIATE(int32_t, int32_t)
TFB_INSTANTIATE(int32_t, int64_t)
TFB_INSTANTIATE(int64_t, int32_t)
TFB_INSTANTIATE(int64_t, int64_t)
#undef TFB_INSTANTIATE

}  // namespace gpu
}  // namespace tf_booster
