// Philox has ten rounds of two products of 32 bits each, and gives four words: most of a new row's time. AVX2 has a
// product for each of four lanes of 64 bits, so the four blocks of 16 columns go side by side, and AVX-512 takes the
// columns of two rows; two vectors at a time, because each operation waits for the one before it. The formulas are
// those of initializer.h, inlined and compiled once more: no operation is fused or left out, so no bit differs.
#include "cc/core/hash_table/initial_row.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#define TFB_HAS_SIMD_ROWS 1
#include <immintrin.h>
// gcc 12 takes the undefined vectors inside its own intrinsics for ours.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

namespace tf_booster {
namespace {

#ifdef TFB_HAS_SIMD_ROWS

constexpr int kColumns = 16;  // Of a piece: four blocks.

// Columns of a row.
struct Piece {
  int64_t key;
  int64_t block;  // The first one.
  float* to;
  int64_t columns;  // At most kColumns.
};

#define TFB_AVX2 __attribute__((target("avx2")))
#if defined(__clang__)
#define TFB_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define TFB_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif

// The words of a vector's pieces, one behind the other. Each lane of 64 bits has a word of its block in the lower half;
// what the upper halves hold never gets down: a product takes the lower halves, and a sum of bits stays where it is.
struct Avx2 {
  static constexpr int kPieces = 1;

  TFB_AVX2 static inline __attribute__((always_inline)) void Words(uint64_t stream, const Piece* piece,
                                                                   uint32_t* words) {
    __m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x(piece->block), _mm256_setr_epi64x(0, 1, 2, 3));
    __m256i c1 = _mm256_setzero_si256();
    __m256i c2 = _mm256_set1_epi64x(piece->key), c3 = _mm256_srli_epi64(c2, 32);
    __m256i key0 = _mm256_set1_epi64x(static_cast<int64_t>(stream)), key1 = _mm256_srli_epi64(key0, 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const __m256i product0 = _mm256_mul_epu32(_mm256_set1_epi64x(0xD2511F53), c0);
      const __m256i product1 = _mm256_mul_epu32(_mm256_set1_epi64x(0xCD9E8D57), c2);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1), key0);
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3), key1);
      c1 = product1;
      c3 = product0;
      key0 = _mm256_add_epi32(key0, _mm256_set1_epi64x(0x9E3779B9));
      key1 = _mm256_add_epi32(key1, _mm256_set1_epi64x(0xBB67AE85));
    }
    const __m256i c01 = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xaa);
    const __m256i c23 = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xaa);
    const __m256i even = _mm256_unpacklo_epi64(c01, c23), odd = _mm256_unpackhi_epi64(c01, c23);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8), _mm256_permute2x128_si256(even, odd, 0x31));
  }
};

struct Avx512 {
  static constexpr int kPieces = 2;

  TFB_AVX512 static inline __attribute__((always_inline)) void Words(uint64_t stream, const Piece* pieces,
                                                                     uint32_t* words) {
    constexpr __mmask8 kSecond = 0xf0;
    __m512i c0 = _mm512_add_epi64(_mm512_mask_set1_epi64(_mm512_set1_epi64(pieces[0].block), kSecond, pieces[1].block),
                                  _mm512_setr_epi64(0, 1, 2, 3, 0, 1, 2, 3));
    __m512i c1 = _mm512_setzero_si512();
    __m512i c2 = _mm512_mask_set1_epi64(_mm512_set1_epi64(pieces[0].key), kSecond, pieces[1].key);
    __m512i c3 = _mm512_srli_epi64(c2, 32);
    __m512i key0 = _mm512_set1_epi64(static_cast<int64_t>(stream)), key1 = _mm512_srli_epi64(key0, 32);
    constexpr int kXor = 0x96;  // Of three.
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const __m512i product0 = _mm512_mul_epu32(_mm512_set1_epi64(0xD2511F53), c0);
      const __m512i product1 = _mm512_mul_epu32(_mm512_set1_epi64(0xCD9E8D57), c2);
      c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product1, 32), c1, key0, kXor);
      c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), c3, key1, kXor);
      c1 = product1;
      c3 = product0;
      key0 = _mm512_add_epi32(key0, _mm512_set1_epi64(0x9E3779B9));
      key1 = _mm512_add_epi32(key1, _mm512_set1_epi64(0xBB67AE85));
    }
    constexpr __mmask16 kUpper = 0xaaaa;
    const __m512i c01 = _mm512_mask_blend_epi32(kUpper, c0, _mm512_slli_epi64(c1, 32));
    const __m512i c23 = _mm512_mask_blend_epi32(kUpper, c2, _mm512_slli_epi64(c3, 32));
    const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11),
                  second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_storeu_si512(words, _mm512_permutex2var_epi64(c01, first, c23));
    _mm512_storeu_si512(words + 16, _mm512_permutex2var_epi64(c01, second, c23));
  }
};

// What the words stand for, to the first `count` pieces' places.
template <InitializerKind kKind, int kPieces>
inline void Put(const RowInitializer& init, const uint32_t* words, const Piece* pieces, int count) {
  alignas(64) float values[kPieces * kColumns];
  for (int i = 0; i < kPieces * kColumns; ++i) values[i] = InitialFromWord<kKind>(init, words[i]);
  for (int p = 0; p < count; ++p) {
    const float* const from = values + p * kColumns;
    if (pieces[p].columns == kColumns) {
      std::memcpy(pieces[p].to, from, kColumns * sizeof(float));
    } else {
      for (int64_t c = 0; c < pieces[p].columns; ++c) pieces[p].to[c] = from[c];
    }
  }
}

// The first `count` pieces; the words of all that kVectors vectors hold are computed.
template <InitializerKind kKind, int kVectors>
TFB_AVX2 __attribute__((flatten)) void Fill(Avx2, const RowInitializer& init, const Piece* pieces, int count) {
  constexpr int kPieces = kVectors * Avx2::kPieces;
  alignas(64) uint32_t words[kPieces * kColumns];
  for (int p = 0; p < kPieces; p += Avx2::kPieces) Avx2::Words(init.stream, pieces + p, words + p * kColumns);
  Put<kKind, kPieces>(init, words, pieces, count);
}

template <InitializerKind kKind, int kVectors>
TFB_AVX512 __attribute__((flatten)) void Fill(Avx512, const RowInitializer& init, const Piece* pieces, int count) {
  constexpr int kPieces = kVectors * Avx512::kPieces;
  alignas(64) uint32_t words[kPieces * kColumns];
  for (int p = 0; p < kPieces; p += Avx512::kPieces) Avx512::Words(init.stream, pieces + p, words + p * kColumns);
  Put<kKind, kPieces>(init, words, pieces, count);
}

template <class Isa, InitializerKind kKind>
void RowsBy(const RowInitializer& init, const int64_t* keys, int64_t n, int64_t dim, float* const* rows) {
  constexpr int kMost = 2 * Isa::kPieces;
  Piece pieces[kMost] = {};
  int count = 0;
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t first = 0; first < dim; first += kColumns) {
      pieces[count++] = {keys[r], first / 4, rows[r] + first, std::min<int64_t>(kColumns, dim - first)};
      if (count < kMost) continue;
      Fill<kKind, 2>(Isa(), init, pieces, count);
      count = 0;
    }
  }
  if (count > Isa::kPieces) {
    Fill<kKind, 2>(Isa(), init, pieces, count);
  } else if (count > 0) {
    Fill<kKind, 1>(Isa(), init, pieces, count);
  }
}

template <class Isa>
void RowsOfKind(const RowInitializer& init, const int64_t* keys, int64_t n, int64_t dim, float* const* rows) {
  switch (init.kind) {
    case InitializerKind::kUniform:
      return RowsBy<Isa, InitializerKind::kUniform>(init, keys, n, dim, rows);
    case InitializerKind::kNormal:
      return RowsBy<Isa, InitializerKind::kNormal>(init, keys, n, dim, rows);
    default:
      return RowsBy<Isa, InitializerKind::kTruncatedNormal>(init, keys, n, dim, rows);
  }
}

#endif

}  // namespace

void WriteInitialRows(SimdLevel level, const RowInitializer& init, const int64_t* keys, int64_t n, int64_t dim,
                      float* const* rows) {
  if (init.kind == InitializerKind::kConstant) {
    for (int64_t r = 0; r < n; ++r) std::fill_n(rows[r], dim, init.a);
    return;
  }
#ifdef TFB_HAS_SIMD_ROWS
  if (level >= SimdLevel::kAvx512) return RowsOfKind<Avx512>(init, keys, n, dim, rows);
  if (level >= SimdLevel::kAvx2NoBmi2) return RowsOfKind<Avx2>(init, keys, n, dim, rows);
#endif
  for (int64_t r = 0; r < n; ++r) InitialRow(init, keys[r], dim, rows[r]);
}

}  // namespace tf_booster
