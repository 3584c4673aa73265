// Many arrays into one, by one launch for some 80 of them.
#ifndef TF_BOOSTER_CC_CORE_GPU_MULTI_COPY_GPU_H_
#define TF_BOOSTER_CC_CORE_GPU_MULTI_COPY_GPU_H_

#include <cstdint>
#include <vector>

namespace tf_booster {
namespace gpu {

// to[0, bytes) = from, to[bytes, room) = 0, both in the card's memory.
struct CopyJob {
  const char* from = nullptr;
  int64_t bytes = 0;
  char* to = nullptr;
  int64_t room = 0;
  int word = 1;       // Set by the copy itself: bytes that a thread copies at a time,
  int64_t units = 0;  // and how many such words there are.
};

// Starts on `stream` and does not wait. Returns null, or CUDA's message where something could not be started.
const char* MultiCopyAsync(const std::vector<CopyJob>& jobs, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_MULTI_COPY_GPU_H_
