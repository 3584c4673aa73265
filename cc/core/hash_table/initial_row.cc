// Philox has ten rounds of two products of 32 bits each, and eight words are needed for what one 256-bit register of
// floats holds: most of a new row's time. AVX2 has a product for each lane of 64 bits, so four blocks go side by side.
// The formulas are those of initializer.h, inlined and compiled once more: no operation is fused or left out, so no bit
// differs.
#include "cc/core/hash_table/initial_row.h"

#include <algorithm>

#include "cc/core/base/cpu_features.h"

#if defined(__x86_64__)
#define TFB_HAS_AVX2_ROWS 1
#include <immintrin.h>
#endif

namespace tf_booster {
namespace {

#ifdef TFB_HAS_AVX2_ROWS

constexpr int64_t kColumns = 16;  // Of four blocks.

// The words of columns first … first + 15. Each lane of 64 bits has a word of its block in the lower half; what the
// upper halves hold never gets down: a product takes the lower halves, and a sum of bits stays where it is.
__attribute__((target("avx2"), always_inline)) inline void WordsByAvx2(uint64_t stream, int64_t key, int64_t first,
                                                                       uint32_t* words) {
  const int64_t block = first / 4;
  __m256i c0 = _mm256_setr_epi64x(block, block + 1, block + 2, block + 3), c1 = _mm256_setzero_si256();
  __m256i c2 = _mm256_set1_epi64x(key), c3 = _mm256_srli_epi64(c2, 32);
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
  // From words of four blocks each to blocks of four words each.
  const __m256i c01 = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xaa);
  const __m256i c23 = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xaa);
  const __m256i even = _mm256_unpacklo_epi64(c01, c23), odd = _mm256_unpackhi_epi64(c01, c23);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

// kTimes · 16 columns from the first one on.
template <InitializerKind kKind, int kTimes>
__attribute__((target("avx2"), flatten)) void ColumnsByAvx2(const RowInitializer& init, int64_t key, int64_t first,
                                                            float* out) {
  uint32_t words[kTimes * kColumns];
  for (int i = 0; i < kTimes; ++i) WordsByAvx2(init.stream, key, first + i * kColumns, words + i * kColumns);
  for (int i = 0; i < kTimes * kColumns; ++i) out[i] = InitialFromWord<kKind>(init, words[i]);
}

template <InitializerKind kKind>
void RowByAvx2(const RowInitializer& init, int64_t key, int64_t dim, float* out) {
  int64_t i = 0;
  for (; i + 2 * kColumns <= dim; i += 2 * kColumns) ColumnsByAvx2<kKind, 2>(init, key, i, out + i);
  if (i + kColumns <= dim) {
    ColumnsByAvx2<kKind, 1>(init, key, i, out + i);
    i += kColumns;
  }
  if (i == dim) return;
  float values[kColumns];
  ColumnsByAvx2<kKind, 1>(init, key, i, values);
  std::copy_n(values, dim - i, out + i);
}

#endif

}  // namespace

void DrawInitialRow(const RowInitializer& init, int64_t key, int64_t dim, float* out) {
#ifdef TFB_HAS_AVX2_ROWS
  static const bool avx2 = Runs(SimdLevel::kAvx2NoBmi2);
  if (avx2) {
    switch (init.kind) {
      case InitializerKind::kUniform:
        return RowByAvx2<InitializerKind::kUniform>(init, key, dim, out);
      case InitializerKind::kNormal:
        return RowByAvx2<InitializerKind::kNormal>(init, key, dim, out);
      case InitializerKind::kTruncatedNormal:
        return RowByAvx2<InitializerKind::kTruncatedNormal>(init, key, dim, out);
      default:
        break;
    }
  }
#endif
  InitialRow(init, key, dim, out);
}

}  // namespace tf_booster
