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

// Whether a[0, n) and b[0, n) are the same, for n >= 8: words, of which the last two may overlap. No byte beyond is
// read.
inline bool EqualWords(const uint8_t* a, const uint8_t* b, size_t n) {
  uint64_t difference = Load64(a + n - 8) ^ Load64(b + n - 8);
  for (size_t i = 0; i + 8 < n; i += 8) difference |= Load64(a + i) ^ Load64(b + i);
  return difference == 0;
}

// The last two bytes of a varint of 9 or 10, at p, as bits 56 to 63 of its value.
inline uint64_t HighBits(const uint8_t* p, bool ten) {
  return static_cast<uint64_t>(p[0] & 0x7f) << 56 | (ten ? static_cast<uint64_t>(p[1] & 1) << 63 : 0);
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_COMMON_H_
