// Copies by the widest word, up to 16 bytes, that addresses and lengths are multiples of.
#ifndef TF_BOOSTER_CC_CORE_GPU_WORDS_H_
#define TF_BOOSTER_CC_CORE_GPU_WORDS_H_

#include <cstdint>

#include "cc/core/gpu/pack.h"

namespace tf_booster {
namespace gpu {

struct alignas(16) Word16 {
  uint64_t half[2];
};

// all: addresses, lengths and steps in bytes, or-ed together.
inline int WidestWord(uintptr_t all) {
  int word = 16;
  while (all % static_cast<uintptr_t>(word) != 0) word /= 2;
  return word;
}

template <class Word>
TFB_HOST_DEVICE void CopyOrZero(const char* from, char* to) {
  StorePack(reinterpret_cast<Word*>(to), from == nullptr ? Word() : *reinterpret_cast<const Word*>(from));
}

// A word of 16, 8, 4, 2 bytes or 1, aligned to that; zeros from null.
TFB_HOST_DEVICE void CopyWordOf(int64_t bytes, const char* from, char* to) {
  switch (bytes) {
    case 16:
      return CopyOrZero<Word16>(from, to);
    case 8:
      return CopyOrZero<uint64_t>(from, to);
    case 4:
      return CopyOrZero<uint32_t>(from, to);
    case 2:
      return CopyOrZero<uint16_t>(from, to);
    default:
      return CopyOrZero<uint8_t>(from, to);
  }
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_WORDS_H_
