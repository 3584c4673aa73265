// From a key's bytes to the feature's number: a hash of all its bytes, then a comparison.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FEATURE_INDEX_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FEATURE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser {

// Product of two 64-bit halves folded to 64 bits: every input bit reaches the highest ones, which choose the slot.
inline uint64_t FoldedProduct(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Hashes key[0, size), where key[0, 8) may be read. Up to 16 bytes nothing branches: keys in random order, some longer
// than 8 bytes and some not, would mispredict half the time.
inline uint64_t HashReadableKey(const uint8_t* key, size_t size, uint64_t seed) {
  constexpr uint64_t kMix = 0xe7037ed1a0b428db;
  const size_t in_word = size < 8 ? size : 8;
  const uint64_t mask = in_word == 0 ? 0 : ~uint64_t{0} >> (64 - 8 * in_word);
  uint64_t h = seed ^ size;
  if (size > 16) {
    for (size_t i = 8; i + 8 < size; i += 8) h = FoldedProduct(Load64(key + i) ^ h, kMix);
  }
  return FoldedProduct((Load64(key) & mask) ^ h, (Load64(key + size - in_word) & mask) ^ kMix);
}

class FeatureIndex {
 public:
  // `names` must not move nor change any more. False: two names are the same.
  bool Build(const std::vector<const std::string*>& names);

  // The only feature that may have this key, or -1; the caller compares. key[0, 8) may be read.
  int32_t Candidate(const uint8_t* key, size_t size) const {
    const uint64_t h = HashReadableKey(key, size, seed_);
    const uint32_t tag = static_cast<uint32_t>(h);
    for (size_t at = h >> shift_;; at = (at + 1) & mask_) {
      const Slot slot = slots_[at];
      if (slot.tag == tag || slot.feature < 0) return slot.feature;
    }
  }

  // The number, or -1.
  int32_t Find(const uint8_t* key, size_t size) const;

 private:
  struct Slot {
    uint32_t tag = 0;  // Low bits of the hash, of which the high ones chose the slot. No two features have the same.
    int32_t feature = -1;
  };

  // The number of keys that are not in their own slot, or -1 if two have the same tag.
  int Fill(const std::vector<const std::string*>& names, uint64_t seed);
  uint64_t Hash(const uint8_t* key, size_t size, uint64_t seed) const;

  std::vector<const std::string*> names_;
  std::vector<Slot> slots_ = std::vector<Slot>(4);
  size_t mask_ = 3;
  int shift_ = 62;
  uint64_t seed_ = 0;
};

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FEATURE_INDEX_H_
