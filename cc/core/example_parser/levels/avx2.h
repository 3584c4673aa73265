// The blocks of the AVX2 levels: 32 bytes to compare, 64 to find the ends of varints in, four varints at once to join.
// With BMI2 (bmi2.h) PDEP says where every eighth ends, so that eights wait for eights and not each varint for the one
// before, and PEXT joins the bits of a single one. Included inside a level's namespace.
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

// Bit i: byte i has its highest bit.
inline uint64_t HighestBits(const uint8_t* p) {
  const uint32_t low = _mm256_movemask_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  const uint32_t high = _mm256_movemask_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)));
  return static_cast<uint64_t>(high) << 32 | low;
}

// So many single bytes to values.
inline void WidenBytes(const uint8_t* p, size_t count, int64_t* out) {
  const auto widen_four = [&](size_t i) {
    const __m128i four = _mm_cvtsi32_si128(static_cast<int>(Load32(p + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_cvtepu8_epi64(four));
  };
  if (count == 64) {
#pragma GCC unroll 16
    for (size_t i = 0; i < 64; i += 4) widen_four(i);
  } else if (count < 4) {
    for (size_t i = 0; i < count; ++i) out[i] = p[i];
  } else {
    for (size_t i = 0; i + 4 < count; i += 4) widen_four(i);
    widen_four(count - 4);
  }
}

// Of bytes that begin with a varint, lane by lane: its seven bits of each byte, and zeros behind its last byte.
//
// `full` is the bytes with their seven bits set: 0xff where another byte follows, and 0x7f at the varint's last one.
// Adding 1 carries through the former, which become 0, into the latter, which becomes 0x80 and ends the carry: the
// bytes behind keep their seven ones. So of `carried` the seven bits are 0 in the varint's own bytes, and 1 behind
// them. If the varint goes on behind the lane, `carried` is 0, and all of the lane is its own.
inline __m256i Carried(__m256i x) {
  const __m256i full = _mm256_or_si256(x, _mm256_set1_epi8(0x7f));
  return _mm256_add_epi64(full, _mm256_set1_epi64x(1));
}
inline __m256i OwnSevens(__m256i x, __m256i carried) {
  return _mm256_and_si256(_mm256_andnot_si256(carried, x), _mm256_set1_epi8(0x7f));
}

// The seven bits of four bytes, joined: multiply-add with 1 and 2^7 joins bytes, with 1 and 2^14 pairs; a sum of a <
// 2^7 and b·2^7 has no carry, and the largest, 2^14 - 1 and 2^28 - 1, fit the signed results.
inline __m256i JoinFours(__m256i sevens) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi16(static_cast<int16_t>(0x8001)), sevens);
  return _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x40000001));
}

inline void StoreFour(int64_t* out, __m256i values) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), values); }

// The first `count` of eight, for which there is room. Where there is room for all eight they are all stored, and what
// follows comes over the rest; where there is not, they are the last, seven at most.
inline void StoreEight(int64_t* out, const int64_t* out_end, size_t count, __m256i first, __m256i second) {
  if (__builtin_expect(out_end - out >= 8, 1)) {
    StoreFour(out, first);
    StoreFour(out + 4, second);
    return;
  }
  if ((count & 4) != 0) {
    StoreFour(out, first);
    out += 4;
    first = second;
  }
  __m128i rest = _mm256_castsi256_si128(first);
  if ((count & 2) != 0) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), rest);
    out += 2;
    rest = _mm256_extracti128_si256(first, 1);
  }
  if ((count & 1) != 0) _mm_storel_epi64(reinterpret_cast<__m128i*>(out), rest);
}

constexpr NarrowShapes<8> kNarrow;

// The values of four varints of up to 4 bytes from p on.
inline __m256i NarrowValues(const uint8_t* p, uint64_t ends) {
  const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(kNarrow.Of(ends)));
  const __m256i x = _mm256_shuffle_epi8(bytes, shuffle);
  return JoinFours(OwnSevens(x, Carried(x)));
}

// All varints of a block, none longer than 4 bytes, eight at a time.
inline void DecodeNarrow(const uint8_t* p, uint64_t ends, size_t count, int64_t* out, const int64_t* out_end) {
  ends |= ~uint64_t{0} << (63 - __builtin_clzll(ends));  // As though single bytes came behind.
  for (;;) {
    const uint64_t fourth = PlaceOf<4>(ends) + 1, eighth = PlaceOf<8>(ends) + 1;
    StoreEight(out, out_end, count, NarrowValues(p, ends), NarrowValues(p + fourth, ends >> fourth));
    if (count <= 8) return;
    count -= 8;
    out += 8;
    p += eighth;
    ends = static_cast<uint64_t>(static_cast<int64_t>(ends) >> eighth);  // Ones come from above.
  }
}

// The next four varints of a block, of any width; kWide: some may be longer than 8 bytes. `p` is where the first
// begins; both move on. Where there are no more ends, what is behind the block is read.
template <bool kWide>
inline __m256i NextFour(const uint8_t* block, const uint8_t** p, uint64_t* ends) {
  const uint8_t* begins[5] = {*p};
  for (int i = 1; i <= 4; ++i) {
    begins[i] = block + _tzcnt_u64(*ends) + 1;
    *ends = _blsr_u64(*ends);
  }
  *p = begins[4];
  const auto load_two = [](const uint8_t* a, const uint8_t* b) {
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(a))),
                                         reinterpret_cast<const __m64*>(b)));
  };
  const auto load = [&](size_t at) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load_two(begins[0] + at, begins[1] + at)),
                                   load_two(begins[2] + at, begins[3] + at), 1);
  };
  const __m256i x = load(0), carried = Carried(x), fours = JoinFours(OwnSevens(x, carried));
  // The upper four bytes' 28 bits meet the lower's.
  const __m256i values = _mm256_srli_epi64(_mm256_sllv_epi32(fours, _mm256_set1_epi64x(4)), 4);
  if (!kWide) return values;
  // Bytes 3 to 10. Of a varint that goes on behind the lane, byte 9 has bits 56 to 62, and the lowest of byte 10 is bit
  // 63 if byte 9 has one to follow.
  const __m256i behind = load(2), longer = _mm256_cmpeq_epi64(carried, _mm256_setzero_si256());
  const __m256i tenth = _mm256_and_si256(_mm256_slli_epi64(behind, 7), _mm256_set1_epi64x(INT64_MIN));
  const __m256i own = _mm256_or_si256(tenth, _mm256_set1_epi64x(0x7f00000000000000));
  const __m256i top = _mm256_and_si256(_mm256_slli_epi64(behind, 8), own);
  return _mm256_or_si256(values, _mm256_and_si256(top, longer));
}

// All varints of a block, of any width. Always eight, for a branch that asks whether the second four are wanted is
// foreseen badly.
template <bool kWide>
inline void DecodeAny(const uint8_t* block, uint64_t ends, size_t count, int64_t* out, const int64_t* out_end) {
  for (const uint8_t* p = block;; count -= 8, out += 8) {
    const __m256i first = NextFour<kWide>(block, &p, &ends);
    StoreEight(out, out_end, count, first, NextFour<kWide>(block, &p, &ends));
    if (count <= 8) return;
  }
}

inline void DecodeEnds(const uint8_t* p, uint64_t ends, size_t count, int widest, int64_t* out,
                       const int64_t* out_end) {
  if (widest <= 4) return DecodeNarrow(p, ends, count, out, out_end);
  if (widest <= 8) return DecodeAny<false>(p, ends, count, out, out_end);
  DecodeAny<true>(p, ends, count, out, out_end);
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX2_H_
