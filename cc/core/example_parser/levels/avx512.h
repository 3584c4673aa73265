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

// An index that spreads one byte over each 64-bit lane: lane i takes byte i.
inline __m512i EightLanes() {
  return _mm512_set_epi64(0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
                          0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
}

// The same for 32-bit lanes: lane 2i takes byte i, lane 2i + 1 takes byte i + 8, so that the lower halves of all 64-bit
// lanes are eight neighbours, and the upper halves the next eight.
inline __m512i SixteenLanes() {
  return _mm512_set_epi64(0x0f0f0f0f07070707, 0x0e0e0e0e06060606, 0x0d0d0d0d05050505, 0x0c0c0c0c04040404,
                          0x0b0b0b0b03030303, 0x0a0a0a0a02020202, 0x0909090901010101, 0x0808080800000000);
}

// Of bytes that begin with a varint, lane by lane: its seven bits of each byte, and zeros behind its last byte. `full`
// is the bytes with their seven bits set: 0xff where another byte follows, and 0x7f at the varint's last one. Adding 1
// carries through the former, which become 0, into the latter, which becomes 0x80 and ends the carry: the bytes behind
// keep their seven ones. So of `carried` the seven bits are 0 in the varint's own bytes, and 1 behind them. If the
// varint goes on behind the lane, `carried` is 0, and all of the lane is its own.
inline __m512i OwnSevens(__m512i x, __m512i carried) {
  return _mm512_ternarylogic_epi64(x, carried, _mm512_set1_epi8(0x7f), 0x20);  // First and not second and third.
}
inline __m512i Full(__m512i x) { return _mm512_or_si512(x, _mm512_set1_epi8(0x7f)); }

// Multiply-add with 1 and 2^7 joins bytes to 14 bits, with 1 and 2^14 pairs to 28; a sum of a < 2^7 and b·2^7 has no
// carry, and the largest, 2^14 - 1 and 2^28 - 1, fit the signed results.
inline __m512i JoinFours(__m512i sevens) {
  const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi16(static_cast<int16_t>(0x8001)), sevens);
  return _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x40000001));
}

inline __mmask8 FirstLanes(size_t n) { return static_cast<__mmask8>(_bzhi_u32(0xff, static_cast<uint32_t>(n))); }

// The first `count` lanes, at most 8. Where there is room for all eight they are all stored, and what follows comes
// over the rest: a masked store is more work than a plain one, and no load behind it is served from it.
inline void StoreLanes(int64_t* out, const int64_t* out_end, size_t count, __m512i lanes) {
  if (out_end - out >= 8) {
    _mm512_storeu_si512(out, lanes);
  } else {
    _mm512_mask_storeu_epi64(out, FirstLanes(count), lanes);
  }
}

// All varints of a block, none longer than 4 bytes, sixteen at a time. Byte i of `at` says where in `block` the i-th
// begins.
inline void JoinNarrow(__m512i block, __m512i at, size_t count, int64_t* out, const int64_t* out_end) {
  __m512i lanes = SixteenLanes();
  for (;;) {
    const __m512i offset = _mm512_set1_epi32(0x03020100);
    const __m512i x = _mm512_permutexvar_epi8(_mm512_add_epi8(_mm512_permutexvar_epi8(lanes, at), offset), block);
    const __m512i carried = _mm512_add_epi32(Full(x), _mm512_set1_epi32(1));
    const __m512i values = JoinFours(OwnSevens(x, carried));
    const __m512i first = _mm512_and_si512(values, _mm512_set1_epi64(0xffffffff));
    const __m512i second = _mm512_srli_epi64(values, 32);
    if (count < 16) {
      StoreLanes(out, out_end, count, first);
      if (count > 8) StoreLanes(out + 8, out_end, count - 8, second);
      return;
    }
    _mm512_storeu_si512(out, first);
    _mm512_storeu_si512(out + 8, second);
    if (count == 16) return;
    count -= 16;
    out += 16;
    lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(16));
  }
}

// All varints of a block, eight at a time; kWide: some may be longer than 8 bytes.
template <bool kWide>
inline void JoinAll(__m512i block, __m512i at, size_t count, int64_t* out, const int64_t* out_end) {
  __m512i lanes = EightLanes();
  for (;;) {
    const __m512i begin = _mm512_permutexvar_epi8(lanes, at), offset = _mm512_set1_epi64(0x0706050403020100);
    const __m512i x = _mm512_permutexvar_epi8(_mm512_add_epi8(begin, offset), block);
    const __m512i carried = _mm512_add_epi64(Full(x), _mm512_set1_epi64(1));
    const __m512i fours = JoinFours(OwnSevens(x, carried));
    // The upper four bytes' 28 bits move down by 4 to meet the lower's. 0xca: where the first has a bit, the second's,
    // otherwise the third's.
    __m512i value = _mm512_ternarylogic_epi64(_mm512_set1_epi64(0x0fffffff), fours, _mm512_srli_epi64(fours, 4), 0xca);
    if (kWide) {
      // Of varints that go on behind the lane: byte 9 into the lane's highest, where its seven bits must begin at bit
      // 56, and byte 10 into the one below, whose lowest bit, 48, goes to 63 if byte 9 has one to follow.
      const __mmask8 longer = _mm512_testn_epi64_mask(carried, carried);
      const __m512i behind = _mm512_set1_epi64(0x0809000000000000);
      const __m512i last = _mm512_permutexvar_epi8(_mm512_add_epi8(begin, behind), block);
      // 0x80: all three. 0xf8: first | second & third.
      const __m512i top =
          _mm512_ternarylogic_epi64(_mm512_slli_epi64(last, 15), last, _mm512_set1_epi64(INT64_MIN), 0x80);
      value = _mm512_mask_ternarylogic_epi64(value, longer, last, _mm512_set1_epi64(0x7f00000000000000), 0xf8);
      value = _mm512_mask_or_epi64(value, longer, value, top);
    }
    if (count < 8) {
      StoreLanes(out, out_end, count, value);
      return;
    }
    _mm512_storeu_si512(out, value);
    if (count == 8) return;
    count -= 8;
    out += 8;
    lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(8));
  }
}

// 64 single bytes, or the first `count` of them, to values.
inline void WidenBytes(__m512i block, size_t count, int64_t* out) {
  __m512i lanes = EightLanes();
  for (size_t done = 0; done < count; done += 8) {
    const __m512i value = _mm512_maskz_permutexvar_epi8(0x0101010101010101, lanes, block);
    _mm512_mask_storeu_epi64(out + done, FirstLanes(count - done), value);
    lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(8));
  }
}

// The begins of all varints in 64 bytes, packed by VPCOMPRESSB, say where to fetch each from.
inline const uint8_t* DecodeBlock(const uint8_t* p, const uint8_t* end, int64_t** out, int64_t* out_end) {
  const __mmask64 valid = FirstBytes(static_cast<size_t>(end - p));
  const __m512i block = end - p >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(valid, p);
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
  // The first begins at 0, each other behind an end. What comes behind the last of them is not stored.
  const __m512i at = _mm512_maskz_compress_epi8(ends << 1 | 1, Iota());
  // Bit i of two, four, eight: from byte i on, so many in a row have one to follow. Four in a row are a varint of 5
  // bytes or more, eight one of 9, ten one of 11.
  const uint64_t two = more & more >> 1;
  const uint64_t four = two & two >> 2;
  const uint64_t eight = four & four >> 4;
  if (four == 0) {
    JoinNarrow(block, at, count, values, out_end);
  } else if (eight == 0) {
    JoinAll<false>(block, at, count, values, out_end);
  } else if ((eight & two >> 8) == 0) {
    JoinAll<true>(block, at, count, values, out_end);
  } else {
    return nullptr;
  }
  return next;
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_AVX512_H_
