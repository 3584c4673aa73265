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

// Reads exactly key[0, size): two overlapping words where one would not do.
inline uint64_t HashKey(const uint8_t* key, size_t size) {
  constexpr uint64_t kA = 0xa0761d6478bd642f, kB = 0xe7037ed1a0b428db;
  uint64_t a, b, h = kA ^ size;
  if (size >= 8) {
    size_t i = 0;
    for (; i + 16 < size; i += 16) h = FoldedProduct(Load64(key + i) ^ h, Load64(key + i + 8) ^ kB);
    a = size - i > 8 ? Load64(key + i) : 0;
    b = Load64(key + size - 8);
  } else if (size >= 4) {
    a = Load32(key);
    b = Load32(key + size - 4);
  } else if (size > 0) {
    a = key[0] | static_cast<uint64_t>(key[size >> 1]) << 8;
    b = key[size - 1];
  } else {
    a = b = 0;
  }
  return FoldedProduct(a ^ h, b ^ kB);
}

class FeatureIndex {
 public:
  // `names` must not move nor change any more. False: two names are the same.
  bool Build(const std::vector<const std::string*>& names) {
    int bits = 2;
    while ((size_t{1} << bits) < 4 * names.size()) ++bits;  // A quarter full: 1.2 probes.
    shift_ = 64 - bits;
    slots_.assign(size_t{1} << bits, Slot{});
    for (size_t i = 0; i < names.size(); ++i) {
      const uint8_t* name = reinterpret_cast<const uint8_t*>(names[i]->data());
      if (Find(name, names[i]->size()) >= 0) return false;
      const uint64_t h = HashKey(name, names[i]->size());
      size_t at = h >> shift_;
      while (slots_[at].feature >= 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {name, names[i]->size(), static_cast<uint32_t>(h), static_cast<int32_t>(i)};
    }
    return true;
  }

  // The number, or -1.
  int32_t Find(const uint8_t* key, size_t size) const {
    const uint64_t h = HashKey(key, size);
    for (size_t at = h >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.feature < 0) return -1;
      if (slot.tag == static_cast<uint32_t>(h) && slot.size == size && std::memcmp(slot.name, key, size) == 0) {
        return slot.feature;
      }
    }
  }

 private:
  struct Slot {
    const uint8_t* name = nullptr;
    size_t size = 0;
    uint32_t tag = 0;  // Low bits of the hash; the high ones chose the slot.
    int32_t feature = -1;
  };
  std::vector<Slot> slots_;
  int shift_ = 62;
};

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FEATURE_INDEX_H_
