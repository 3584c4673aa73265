// The hash of a key, shared by host and device, index and eviction.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_HASH_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_HASH_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {

// A bijection of 64-bit words in which every input bit reaches every output bit: the finalizer of SplitMix64 (Steele,
// Lea, Flood: "Fast splittable pseudorandom number generators", 2014; the constants are Stafford's variant 13).
TFB_HOST_DEVICE uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Its inverse: Mix64Inverse(Mix64(x)) == x.
TFB_HOST_DEVICE uint64_t Mix64Inverse(uint64_t x) {
  x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642B2D24D8EC3ull;
  x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96DE1B173F119089ull;
  return x ^ (x >> 30) ^ (x >> 60);
}

// For one field a bijection of keys: two keys of a field never share a hash, which makes it an order for breaking ties.
// The high bits choose the stripe and the low bits the bucket, so the two choices are independent.
TFB_HOST_DEVICE uint64_t HashKey(int64_t key, uint32_t field) {
  return Mix64(static_cast<uint64_t>(key) + (uint64_t{field} + 1) * 0x9E3779B97F4A7C15ull);
}

// The key whose hash in the field this is.
TFB_HOST_DEVICE int64_t KeyOfHash(uint64_t hash, uint32_t field) {
  return static_cast<int64_t>(Mix64Inverse(hash) - (uint64_t{field} + 1) * 0x9E3779B97F4A7C15ull);
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_HASH_H_
