// The blocks of the AVX-512 level, which needs VBMI and VBMI2: 64 bytes at once, eight varints joined at once.
// Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX512_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX512_H_

inline __mmask64 FirstBytes(size_t n) { return _bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(n < 64 ? n : 64)); }

inline bool EqualBytes(const uint8_t* a, const uint8_t* b, size_t n) {
  if (n < 16) return EqualWords(a, b, n);
  for (size_t i = 0; i < n; i += 64) {
    const __mmask64 bytes = FirstBytes(n - i);
    const __m512i x = _mm512_maskz_loadu_epi8(bytes, a + i);
    if (_mm512_mask_cmpneq_epi8_mask(bytes, x, _mm512_maskz_loadu_epi8(bytes, b + i)) != 0) return false;
  }
  return true;
}

inline uint64_t GatherSevens(uint64_t x) { return _pext_u64(x, 0x7f7f7f7f7f7f7f7f); }

// Masked loads read nothing behind the end.
constexpr size_t kReach = 0;

// Byte i: i.
inline __m512i Iota() {
  return _mm512_set_epi64(0x3f3e3d3c3b3a3938, 0x3736353433323130, 0x2f2e2d2c2b2a2928, 0x2726252423222120,
                          0x1f1e1d1c1b1a1918, 0x1716151413121110, 0x0f0e0d0c0b0a0908, 0x0706050403020100);
}

// Lane i: eight times byte i, an index that spreads one byte over each 64-bit lane.
inline __m512i SpreadIndex() {
  return _mm512_set_epi64(0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
                          0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
}

// Eight varints, lane by lane. `at` and `size` hold in each lane eight copies of where the varint begins in `block` and
// of its size. VPERMB fetches bytes at … at + 7 into the lane and zeros what is behind the varint. Multiply-add with 1
// and 2^7 joins bytes to 14 bits, with 1 and 2^14 pairs to 28; a sum of a < 2^7 and b·2^7 has no carry, and the
// largest, 2^14 - 1 and 2^28 - 1, fit the signed results. Then the upper four bytes' 28 bits move down by 4 to meet the
// lower's.
template <bool kWide>
inline __m512i JoinEight(__m512i block, __m512i at, __m512i size) {
  const __m512i offset = _mm512_set1_epi64(0x0706050403020100);
  const __mmask64 inside = _mm512_cmplt_epu8_mask(offset, size);
  const __m512i seven = _mm512_set1_epi8(0x7f);
  const __m512i x = _mm512_and_si512(_mm512_maskz_permutexvar_epi8(inside, _mm512_add_epi8(at, offset), block), seven);
  const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi16(static_cast<int16_t>(0x8001)), x);
  const __m512i fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x40000001));
  const __m512i low = _mm512_set1_epi64(0x0fffffff);
  // 0xca: where low has a bit, the second operand's, otherwise the third's.
  __m512i value = _mm512_ternarylogic_epi64(low, fours, _mm512_srli_epi64(fours, 4), 0xca);
  if (kWide) {
    // Byte 9 into the lane's highest, where its seven bits must begin at bit 56: byte 7 as it is. Byte 10 into the one
    // below, whose lowest bit, 48, goes to 63.
    const __m512i behind = _mm512_set1_epi64(0x0809000000000000);
    const __mmask64 there = _mm512_mask_cmplt_epu8_mask(0xc0c0c0c0c0c0c0c0, behind, size);
    const __m512i last = _mm512_maskz_permutexvar_epi8(there, _mm512_add_epi8(at, behind), block);
    // 0xf8: first | second & third.
    value = _mm512_ternarylogic_epi64(value, last, _mm512_set1_epi64(0x7f00000000000000), 0xf8);
    value = _mm512_ternarylogic_epi64(value, _mm512_slli_epi64(last, 15), _mm512_set1_epi64(INT64_MIN), 0xf8);
  }
  return value;
}

template <bool kWide>
inline void JoinAll(__m512i block, __m512i at, __m512i size, size_t count, int64_t* out) {
  __m512i lanes = SpreadIndex();
  for (;;) {
    const __m512i value =
        JoinEight<kWide>(block, _mm512_permutexvar_epi8(lanes, at), _mm512_permutexvar_epi8(lanes, size));
    if (count < 8) {
      _mm512_mask_storeu_epi64(out, static_cast<__mmask8>((1u << count) - 1), value);
      return;
    }
    _mm512_storeu_si512(out, value);
    out += 8;
    count -= 8;
    if (count == 0) return;
    lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(8));
  }
}

// 64 single bytes, or the first `count` of them, to values.
inline void WidenBytes(__m512i block, size_t count, int64_t* out) {
  __m512i lanes = SpreadIndex();
  for (size_t done = 0; done < count; done += 8) {
    const __m512i value = _mm512_maskz_permutexvar_epi8(0x0101010101010101, lanes, block);
    const size_t left = count - done;
    _mm512_mask_storeu_epi64(out + done, left < 8 ? static_cast<__mmask8>((1u << left) - 1) : 0xff, value);
    lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(8));
  }
}

// The ends of all varints in 64 bytes, packed by VPCOMPRESSB, give where each begins and how long it is.
inline const uint8_t* DecodeBlock(const uint8_t* p, const uint8_t* end, int64_t** out, int64_t* out_end) {
  const __mmask64 valid = FirstBytes(static_cast<size_t>(end - p));
  const __m512i block = _mm512_maskz_loadu_epi8(valid, p);
  const uint64_t more = _mm512_movepi8_mask(block);
  const uint64_t ends = ~more & valid;
  if (ends == 0) return nullptr;
  const size_t count = static_cast<size_t>(_mm_popcnt_u64(ends));
  if (count > static_cast<size_t>(out_end - *out)) return nullptr;
  const uint8_t* next = p + (64 - _lzcnt_u64(ends));
  int64_t* values = *out;
  *out += count;
  if (more == 0) {
    WidenBytes(block, count, values);
    return next;
  }
  const __m512i last = _mm512_maskz_compress_epi8(ends, Iota());
  // Each begins behind the end of the one before, the first at 0.
  const __m512i one = _mm512_set1_epi8(1);
  const __mmask64 others = ~uint64_t{1};
  const __m512i before = _mm512_maskz_permutexvar_epi8(others, _mm512_sub_epi8(Iota(), one), last);
  const __m512i at = _mm512_maskz_add_epi8(others, before, one);
  const __m512i size = _mm512_add_epi8(_mm512_sub_epi8(last, at), one);
  const __mmask64 used = FirstBytes(count);
  if (_mm512_mask_cmpgt_epu8_mask(used, size, _mm512_set1_epi8(8)) == 0) {
    JoinAll<false>(block, at, size, count, values);
    return next;
  }
  if (_mm512_mask_cmpgt_epu8_mask(used, size, _mm512_set1_epi8(10)) != 0) return nullptr;
  JoinAll<true>(block, at, size, count, values);
  return next;
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX512_H_
