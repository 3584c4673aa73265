#include "cc/core/pooling/prepare_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/pooling/prepare_body.h"

namespace tf_booster {
namespace gpu {

template <class Source, class Id>
const char* ReadLastRows(const std::vector<PrepareJob<Source, Id>>& jobs, void* scratch, void* stream,
                         std::vector<int64_t>* rows) {
  CudaQueue queue(stream);
  ReadLastRowsOnQueue(queue, jobs, static_cast<int64_t*>(scratch), rows);
  return queue.error();
}

template <class Source, class Id>
const char* PrepareLookups(const std::vector<PrepareJob<Source, Id>>& jobs, const LookupRules& rules, void* memory,
                           void* stream, std::vector<PrepareCounts>* counts, PrepareError* error) {
  CudaQueue queue(stream);
  Scratch scratch(memory);
  Preparation<CudaQueue, Source, Id>(jobs, rules, &scratch).Count(queue, counts, error);
  return queue.error();
}

template <class Source, class Id>
const char* FinishLookupsAsync(const std::vector<PrepareJob<Source, Id>>& jobs, const LookupRules& rules, void* memory,
                               void* stream, const std::vector<PrepareCounts>& counts) {
  CudaQueue queue(stream);
  Scratch scratch(memory);
  Preparation<CudaQueue, Source, Id>(jobs, rules, &scratch).Finish(queue, counts);
  return queue.error();
}

template <class Source, class Id>
int64_t PrepareScratchBytes(const std::vector<PrepareJob<Source, Id>>& jobs, const LookupRules& rules) {
  Scratch scratch(nullptr);
  Preparation<CudaQueue, Source, Id>(jobs, rules, &scratch);
  return scratch.used();
}

#define TFB_INSTANTIATE(Source, Id)                                                                                   \
  template const char* ReadLastRows(const std::vector<PrepareJob<Source, Id>>&, void*, void*, std::vector<int64_t>*); \
  template const char* PrepareLookups(const std::vector<PrepareJob<Source, Id>>&, const LookupRules&, void*, void*,   \
                                      std::vector<PrepareCounts>*, PrepareError*);                                    \
  template const char* FinishLookupsAsync(const std::vector<PrepareJob<Source, Id>>&, const LookupRules&, void*,      \
                                          void*, const std::vector<PrepareCounts>&);                                  \
  template int64_t PrepareScratchBytes(const std::vector<PrepareJob<Source, Id>>&, const LookupRules&)
TFB_INSTANTIATE(int32_t, int32_t);
TFB_INSTANTIATE(int32_t, int64_t);
TFB_INSTANTIATE(int64_t, int64_t);
#undef TFB_INSTANTIATE

}  // namespace gpu
}  // namespace tf_booster
