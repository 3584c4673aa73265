// A few values that the host has into the card's memory, as the argument of a kernel: no copy to wait for.
#ifndef TF_BOOSTER_CC_CORE_GPU_WRITE_VALUES_H_
#define TF_BOOSTER_CC_CORE_GPU_WRITE_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cc/core/gpu/launch.h"

namespace tf_booster {
namespace gpu {

struct WriteBytes {
  static constexpr int64_t kMost = 2048;
  char* to;
  char bytes[kMost];
  TFB_HOST_DEVICE void operator()(int64_t i) const { to[i] = bytes[i]; }
};

// One kernel for each 2 KiB.
template <class Queue, class T>
void Write(Queue& queue, const T* from, int64_t n, T* to) {
  const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
  for (int64_t done = 0; done < bytes; done += WriteBytes::kMost) {
    WriteBytes part;
    const int64_t size = std::min(WriteBytes::kMost, bytes - done);
    part.to = reinterpret_cast<char*>(to) + done;
    std::memcpy(part.bytes, reinterpret_cast<const char*>(from) + done, size);
    ForEach(queue, size, part);
  }
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_WRITE_VALUES_H_
