// The hash of a row's bytes, taken up item by item.
#ifndef TF_BOOSTER_CC_CORE_REPEATS_ROW_HASH_H_
#define TF_BOOSTER_CC_CORE_REPEATS_ROW_HASH_H_

#include <cstdint>
#include <cstring>

namespace tf_booster {

inline constexpr uint64_t kRowHashFactor = 0xa0761d6478bd642full, kRowHashStart = 0xe7037ed1a0b428dbull;

// A product of 64 by 64 bits folded together: every bit of both reaches the result (as in wyhash).
inline uint64_t Fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t HashBytes(const char* bytes, int64_t size, uint64_t hash) {
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    hash = Fold(hash ^ word ^ kRowHashFactor, kRowHashStart);
  }
  if (size == 0) return hash;
  uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  return Fold(hash ^ word ^ kRowHashFactor, kRowHashStart + static_cast<uint64_t>(size));
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_REPEATS_ROW_HASH_H_
