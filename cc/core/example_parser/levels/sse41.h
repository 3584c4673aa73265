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

// So many single bytes to values.
inline void WidenBytes(const uint8_t* p, size_t count, int64_t* out) {
  const auto widen_two = [&](size_t i) {
    uint16_t two;
    std::memcpy(&two, p + i, 2);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_cvtepu8_epi64(_mm_cvtsi32_si128(two)));
  };
  if (count == 64) {
#pragma GCC unroll 32
    for (size_t i = 0; i < 64; i += 2) widen_two(i);
  } else {
    for (size_t i = 0; i + 2 <= count; i += 2) widen_two(i);
    if (count % 2 != 0) out[count - 1] = p[count - 1];
  }
}

constexpr NarrowShapes<4> kNarrow;

// The values of four varints of up to 4 bytes from p on, in lanes of 32 bits.
//
// With its seven bits set, each byte is 0xff where another follows, and 0x7f at the varint's last one. Adding 1 carries
// through the former, which become 0, into the latter, which becomes 0x80 and ends the carry: the bytes behind keep
// their seven ones. So where `carried` has a 0 among the seven bits, they are the varint's own.
inline __m128i NarrowValues(const uint8_t* p, uint64_t ends) {
  const __m128i x = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)),
                                     _mm_load_si128(reinterpret_cast<const __m128i*>(kNarrow.Of(ends))));
  const __m128i sevens = _mm_set1_epi8(0x7f);
  const __m128i carried = _mm_add_epi32(_mm_or_si128(x, sevens), _mm_set1_epi32(1));
  return JoinFours(_mm_and_si128(_mm_andnot_si128(carried, x), sevens));
}

inline void DecodeEnds(const uint8_t* p, uint64_t ends, size_t count, int widest, int64_t* out,
                       const int64_t* /*out_end*/) {
  if (widest > 8) return DecodePairs<true>(p, ends, out);
  if (widest > 4) return DecodePairs<false>(p, ends, out);
  for (; count >= 4; count -= 4, out += 4) {
    const __m128i values = NarrowValues(p, ends);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_cvtepu32_epi64(values));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2), _mm_cvtepu32_epi64(_mm_unpackhi_epi64(values, values)));
    for (int i = 0; i < 3; ++i) ends &= ends - 1;
    const int fourth = __builtin_ctzll(ends);
    p += fourth + 1;
    ends = ends >> fourth >> 1;
  }
  DecodePairs<false>(p, ends, out);
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SSE41_H_
