// Two varints at a time, in 16 bytes. Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_PAIRS_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_PAIRS_H_

// The seven bits of four bytes, joined: multiply-add with 1 and 2^7 joins bytes, with 1 and 2^14 pairs; a sum of a <
// 2^7 and b·2^7 has no carry, and the largest, 2^14 - 1 and 2^28 - 1, fit the signed results.
inline __m128i JoinFours(__m128i sevens) {
  const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi16(static_cast<int16_t>(0x8001)), sevens);
  return _mm_madd_epi16(pairs, _mm_set1_epi32(0x40000001));
}

// JoinSevens on two words.
inline __m128i JoinSevensTwice(__m128i x) {
  const __m128i fours = JoinFours(x);
  const __m128i low = _mm_set1_epi64x(0x0fffffff);
  return _mm_or_si128(_mm_and_si128(fours, low), _mm_andnot_si128(low, _mm_srli_epi64(fours, 4)));
}

// Value bits of a varint's first 8 bytes, by its size.
alignas(16) constexpr uint64_t kValueBits[11] = {0,
                                                 0x7f,
                                                 0x7f7f,
                                                 0x7f7f7f,
                                                 0x7f7f7f7f,
                                                 0x7f7f7f7f7f,
                                                 0x7f7f7f7f7f7f,
                                                 0x7f7f7f7f7f7f7f,
                                                 0x7f7f7f7f7f7f7f7f,
                                                 0x7f7f7f7f7f7f7f7f,
                                                 0x7f7f7f7f7f7f7f7f};

// kWide: some may be longer than 8 bytes.
template <bool kWide>
inline void DecodePairs(const uint8_t* p, uint64_t ends, int64_t* out) {
  size_t at = 0;
  while (ends != 0) {
    const size_t next = static_cast<size_t>(__builtin_ctzll(ends)) + 1;
    ends &= ends - 1;
    const size_t size = next - at;
    __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + at));
    __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kValueBits + size));
    if (ends == 0) {
      x = JoinSevensTwice(_mm_and_si128(x, bits));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out), x);
      if (kWide) *out |= static_cast<int64_t>(HighBits(p + at + 8, size));
      return;
    }
    const size_t end = static_cast<size_t>(__builtin_ctzll(ends)) + 1;
    ends &= ends - 1;
    x = _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(x), reinterpret_cast<const __m64*>(p + next)));
    bits = _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(bits), reinterpret_cast<const __m64*>(kValueBits + (end - next))));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), JoinSevensTwice(_mm_and_si128(x, bits)));
    if (kWide) {
      out[0] |= static_cast<int64_t>(HighBits(p + at + 8, size));
      out[1] |= static_cast<int64_t>(HighBits(p + next + 8, end - next));
    }
    out += 2;
    at = end;
  }
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_PAIRS_H_
