// What the blocks of several levels share. Included by each level, inside its own namespace and target.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_COMMON_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_COMMON_H_

// Seven bits of each byte, joined: byte i's go to bits 7i to 7i + 6. The highest bit of each byte must be clear.
//
// Three steps, each joining neighbours: bytes of 7 bits become pairs of 14, these fours of 28, these one of 56. In a
// pair a + b·2^8 with a, b < 2^7 the upper half moves down by one bit, to a + b·2^7: no bit is lost, for a has only
// seven.
inline uint64_t JoinSevens(uint64_t x) {
  x = (x & 0x007f007f007f007f) | (x & 0x7f007f007f007f00) >> 1;
  x = (x & 0x00003fff00003fff) | (x & 0x3fff00003fff0000) >> 2;
  return (x & 0x000000000fffffff) | (x & 0x0fffffff00000000) >> 4;
}

// Of a varint of so many bytes, 1 to 10: the bits of its first 8 that belong to its value.
inline uint64_t ValueBits(size_t size) { return 0x7f7f7f7f7f7f7f7f >> (size < 8 ? 64 - 8 * size : 0); }

// Whether a[0, n) and b[0, n) are the same, for n >= 8: words, of which the last two may overlap. No byte beyond is
// read.
inline bool EqualWords(const uint8_t* a, const uint8_t* b, size_t n) {
  uint64_t difference = Load64(a + n - 8) ^ Load64(b + n - 8);
  for (size_t i = 0; i + 8 < n; i += 8) difference |= Load64(a + i) ^ Load64(b + i);
  return difference == 0;
}

// Of a varint of `size` bytes, 1 to 10: bits 56 to 63 of its value, from the two bytes at p, its ninth and tenth if it
// has them. No branch: hashes have 9 or 10 bytes at random. Of the tenth only the lowest bit counts.
inline uint64_t HighBits(const uint8_t* p, size_t size) {
  constexpr uint16_t kValueBits[11] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0x007f, 0x017f};
  uint16_t last;
  std::memcpy(&last, p, 2);
  last &= kValueBits[size];
  return static_cast<uint64_t>(last & 0x7f) << 56 | static_cast<uint64_t>(last & 0x100) << 55;
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_COMMON_H_
