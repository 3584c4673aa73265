// 64 bytes at once, as four polynomials of 128 bits. Where another one follows n bytes behind, it is shifted by n bytes
// with two carry-less multiplications, and added to that one. A product by the half with the higher powers, the lower
// word, stands 64 bits further up, so its constant shifts by a word more.
#include "cc/core/record_reader/crc32c_levels.h"

#ifdef TFB_HAS_CRC_INSTRUCTION

#include <immintrin.h>

#include "cc/core/base/target.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for ours.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

TFB_BEGIN_TARGET("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul,sse4.2,bmi2")

namespace tf_booster {
namespace {

// Shifts by so many words. For the four polynomials of a vector, the last one's first; 0: to nothing.
template <size_t kLast, size_t kThird = kLast, size_t kSecond = kLast, size_t kFirst = kLast>
inline __m512i Shifts() {
  constexpr auto low = [](size_t words) -> int64_t { return words == 0 ? 0 : kCrcShifts.by[words + 1]; };
  constexpr auto high = [](size_t words) -> int64_t { return words == 0 ? 0 : kCrcShifts.by[words]; };
  return _mm512_set_epi64(high(kLast), low(kLast), high(kThird), low(kThird), high(kSecond), low(kSecond), high(kFirst),
                          low(kFirst));
}

inline __m512i Shift(__m512i x, __m512i shifts, __m512i and_add) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, shifts, 0x00), _mm512_clmulepi64_epi128(x, shifts, 0x11),
                                   and_add, 0x96);  // The sum of three.
}

}  // namespace

uint32_t Crc32cByAvx512(const uint8_t* p, size_t size) {
  // What is no whole vector stands at the begin, behind zeros, which add nothing. The first four bytes of all are
  // inverted: so the CRC begins with ones.
  const size_t head = size % 64;
  const __mmask64 of_head = ~_bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(64 - head));
  const __m512i ones = _mm512_set1_epi8(-1);
  __m512i first =
      _mm512_maskz_loadu_epi8(of_head, reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + head - 64));
  first = _mm512_xor_si512(first, _mm512_maskz_mov_epi8(of_head & ~(of_head << 4), ones));
  p += head;
  size_t vectors = size / 64;
  const __m512i by_vector = Shifts<8>();
  __m512i x = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_maskz_mov_epi8(uint64_t{15} >> head, ones));
  x = Shift(first, by_vector, x);
  p += 64;
  --vectors;
  if (vectors >= 3) {
    __m512i x1 = _mm512_loadu_si512(p), x2 = _mm512_loadu_si512(p + 64), x3 = _mm512_loadu_si512(p + 128);
    const __m512i by_four = Shifts<32>();
    for (p += 192, vectors -= 3; vectors >= 4; p += 256, vectors -= 4) {
      x = Shift(x, by_four, _mm512_loadu_si512(p));
      x1 = Shift(x1, by_four, _mm512_loadu_si512(p + 64));
      x2 = Shift(x2, by_four, _mm512_loadu_si512(p + 128));
      x3 = Shift(x3, by_four, _mm512_loadu_si512(p + 192));
    }
    x = Shift(x, Shifts<24>(), Shift(x1, Shifts<16>(), Shift(x2, by_vector, x3)));
  }
  for (; vectors > 0; p += 64, --vectors) x = Shift(x, by_vector, _mm512_loadu_si512(p));
  x = Shift(x, Shifts<0, 2, 4, 6>(), _mm512_maskz_mov_epi64(0xc0, x));
  const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  const __m128i sum = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const uint64_t crc = _mm_crc32_u64(_mm_crc32_u64(0, _mm_cvtsi128_si64(sum)), _mm_extract_epi64(sum, 1));
  return ~static_cast<uint32_t>(crc);
}

}  // namespace tf_booster

TFB_END_TARGET

#endif
