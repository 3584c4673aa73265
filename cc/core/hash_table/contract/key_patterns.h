// Keys that are hard on hash tables in different ways.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_KEY_PATTERNS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_KEY_PATTERNS_H_

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cc/core/hash_table/hash.h"

namespace tf_booster::contract {

enum class Pattern { kSequential, kRandom, kColliding, kExtreme };
inline constexpr Pattern kPatterns[] = {Pattern::kSequential, Pattern::kRandom, Pattern::kColliding, Pattern::kExtreme};

// The key of field 0 with a given hash. An odd factor's inverse modulo 2^64 comes from Newton's iteration; x ^ (x >> s)
// is undone by doing it with s, 2 s, 4 s, ….
inline int64_t KeyWithHash(uint64_t hash) {
  const auto inverse = [](uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  };
  const auto unshift = [](uint64_t x, int shift) {
    for (; shift < 64; shift *= 2) x ^= x >> shift;
    return x;
  };
  uint64_t x = unshift(hash, 31) * inverse(0x94D049BB133111EBull);
  x = unshift(x, 27) * inverse(0xBF58476D1CE4E5B9ull);
  x = unshift(x, 30);
  return static_cast<int64_t>(x - 0x9E3779B97F4A7C15ull);
}

// `n` distinct keys.
inline std::vector<int64_t> MakeKeys(Pattern pattern, int64_t n, uint64_t seed = 1) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  const int64_t extremes[] = {0,         -1, kMin, kMax, 1, kMin + 1, kMax - 1, int64_t{1} << 32, -(int64_t{1} << 32),
                              0xFFFFFFFF};
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < n; ++i) {
    switch (pattern) {
      case Pattern::kSequential:
        keys.push_back(i - n / 2);
        break;
      case Pattern::kRandom:
        keys.push_back(static_cast<int64_t>(Mix64(seed * 1000003 + i)));
        break;
      case Pattern::kColliding:  // One stripe and one bucket, whatever the size of the index.
        keys.push_back(KeyWithHash(uint64_t{7} << 60 | static_cast<uint64_t>(i) << 32 | 5));
        break;
      case Pattern::kExtreme:
        keys.push_back(i < 10 ? extremes[i] : i % 2 ? kMin + i : kMax - i);
        break;
    }
  }
  return keys;
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_KEY_PATTERNS_H_
