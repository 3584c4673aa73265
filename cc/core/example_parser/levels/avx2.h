// The blocks of the AVX2 and BMI2 level: 32 bytes to compare, 64 to find the ends of varints in, PEXT to join their
// bits. Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX2_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX2_H_

inline bool EqualBytes(const uint8_t* a, const uint8_t* b, size_t n) {
  if (n < 16) return EqualWords(a, b, n);
  if (n < 32) {
    const __m128i first = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)),
                                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
    const __m128i last = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + n - 16)),
                                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + n - 16)));
    const __m128i difference = _mm_or_si128(first, last);
    return _mm_testz_si128(difference, difference) != 0;
  }
  __m256i difference = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + n - 32)),
                                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + n - 32)));
  for (size_t i = 0; i + 32 < n; i += 32) {
    difference =
        _mm256_or_si256(difference, _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i)),
                                                     _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i))));
  }
  return _mm256_testz_si256(difference, difference) != 0;
}

inline uint64_t GatherSevens(uint64_t x) { return _pext_u64(x, 0x7f7f7f7f7f7f7f7f); }

// Bit i: byte i has its highest bit.
inline uint64_t HighestBits(const uint8_t* p) {
  const uint32_t low = _mm256_movemask_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  const uint32_t high = _mm256_movemask_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)));
  return static_cast<uint64_t>(high) << 32 | low;
}

// 64 single bytes to 64 values.
inline void WidenBytes(const uint8_t* p, int64_t* out) {
  for (int i = 0; i < 64; i += 4) {
    const __m128i four = _mm_cvtsi32_si128(static_cast<int>(Load32(p + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_cvtepu8_epi64(four));
  }
}

// PEXT joins the seven bits of 8 bytes, a second one those of bytes 9 and 10 (of the tenth only the lowest bit counts),
// and BZHI drops what lies behind the varint: a varint of n bytes has 7n bits; from 64 on BZHI leaves all, and 70 is as
// good. Pairs are a fifth faster where no varint has 9 or 10 bytes.
inline void DecodeEnds(const uint8_t* p, uint64_t ends, bool wide, int64_t* out) {
  if (!wide) return DecodePairs(p, ends, false, out);
  size_t at = 0;
  for (; ends != 0; ends &= ends - 1) {
    const size_t end = _tzcnt_u64(ends) + 1;
    uint16_t last;
    std::memcpy(&last, p + at + 8, 2);
    const uint64_t all = GatherSevens(Load64(p + at)) | static_cast<uint64_t>(_pext_u32(last, 0x017f)) << 56;
    *out++ = static_cast<int64_t>(_bzhi_u64(all, static_cast<uint32_t>(7 * (end - at))));
    at = end;
  }
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX2_H_
