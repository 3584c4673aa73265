// Philox 4x32-10, a counter-based random generator: four random words as a pure function of a 64-bit key and a 128-bit
// counter. Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#ifndef TF_BOOSTER_CC_CORE_BASE_PHILOX_H_
#define TF_BOOSTER_CC_CORE_BASE_PHILOX_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {

struct PhiloxWords {
  uint32_t word[4];
};

TFB_HOST_DEVICE PhiloxWords Philox(uint64_t key, PhiloxWords counter) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  uint32_t* c = counter.word;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c[1] = static_cast<uint32_t>(product1);
    c[2] = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c[3] = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_PHILOX_H_
