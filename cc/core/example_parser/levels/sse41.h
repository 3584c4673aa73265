// The blocks of the SSE4.1 level: 16 bytes to compare, 64 to find the ends of varints in, two varints at a time to
// join. Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SSE41_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SSE41_H_

inline bool EqualBytes(const uint8_t* a, const uint8_t* b, size_t n) {
  if (n < 16) return EqualWords(a, b, n);
  __m128i difference = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + n - 16)),
                                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + n - 16)));
  for (size_t i = 0; i + 16 < n; i += 16) {
    difference = _mm_or_si128(difference, _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i)),
                                                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i))));
  }
  return _mm_testz_si128(difference, difference) != 0;
}

inline uint64_t GatherSevens(uint64_t x) { return JoinSevens(x & 0x7f7f7f7f7f7f7f7f); }

// Bit i: byte i has its highest bit.
inline uint64_t HighestBits(const uint8_t* p) {
  uint64_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
    bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(bytes))) << (16 * i);
  }
  return bits;
}

// 64 single bytes to 64 values.
inline void WidenBytes(const uint8_t* p, int64_t* out) {
  for (int i = 0; i < 64; i += 2) {
    uint16_t two;
    std::memcpy(&two, p + i, 2);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_cvtepu8_epi64(_mm_cvtsi32_si128(two)));
  }
}

inline void DecodeEnds(const uint8_t* p, uint64_t ends, bool wide, int64_t* out) { DecodePairs(p, ends, wide, out); }

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SSE41_H_
