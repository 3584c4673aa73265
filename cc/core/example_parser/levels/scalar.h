// The blocks of the scalar level: words of 8 bytes. Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SCALAR_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SCALAR_H_

inline bool EqualBytes(const uint8_t* a, const uint8_t* b, size_t n) { return EqualWords(a, b, n); }

inline uint64_t GatherSevens(uint64_t x) { return JoinSevens(x & 0x7f7f7f7f7f7f7f7f); }

// Bit i: byte i has its highest bit. The product brings bit 8j of a word, by its factor's bit 56 - 7j, to 56 + j; the
// other seven factors bring it to places that no other bit comes to, so that nothing carries.
inline uint64_t HighestBits(const uint8_t* p) {
  uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) {
    const uint64_t ones = Load64(p + 8 * i) >> 7 & 0x0101010101010101;
    bits |= (ones * 0x0102040810204080) >> 56 << (8 * i);
  }
  return bits;
}

// So many single bytes to values.
inline void WidenBytes(const uint8_t* p, size_t count, int64_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = p[i];
}

inline void DecodeEnds(const uint8_t* p, uint64_t ends, size_t /*count*/, int widest, int64_t* out,
                       const int64_t* /*out_end*/) {
  size_t at = 0;
  for (; ends != 0; ends &= ends - 1) {
    const size_t end = static_cast<size_t>(__builtin_ctzll(ends)) + 1;
    const size_t size = end - at;
    uint64_t value = JoinSevens(Load64(p + at) & ValueBits(size));
    if (widest > 8) value |= HighBits(p + at + 8, size);
    *out++ = static_cast<int64_t>(value);
    at = end;
  }
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SCALAR_H_
