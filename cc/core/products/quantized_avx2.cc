#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cc/core/base/target.h"
#include "cc/core/products/quantized_levels.h"
#include "cc/core/products/quantized_rounding.h"

TFB_BEGIN_TARGET("avx2")
namespace tf_booster::avx2_quantized {
namespace {

// Two rows of 16 columns are sums in eight registers, and four hold what the weights are made of.
constexpr int kTileRows = 2;

inline __m256i Load(const char* from) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(from)); }
inline int32_t Word(const char* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// Products of bytes are made of words: what multiplies bytes (PMADDUBSW) adds two of them in 16 bits, which saturate.
inline void AddBytes(const char* a, const __m256i (&weights)[4], __m256i* sums) {
  const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(Word(a)));
  for (int i = 0; i < 4; ++i) sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(x, weights[i]));
}

// 16 columns of a tile. sums of bytes are in pairs of lanes.
template <class Format, int kRows>
void Columns(const char* a, int64_t a_step, const char* weights, int64_t weights_step, int64_t groups, int32_t* out) {
  constexpr int kSums = Format::kGroup == 4 ? 4 : 2;
  __m256i sums[kRows][kSums];
  for (auto& row : sums) {
    for (__m256i& sum : row) sum = _mm256_setzero_si256();
  }
  for (int64_t g = 0; g < groups; ++g, a += 4, weights += weights_step) {
    const __m256i low = Load(weights), high = Load(weights + 32);
    if constexpr (Format::kGroup == 4) {
      const __m256i words[4] = {
          _mm256_cvtepi8_epi16(_mm256_castsi256_si128(low)), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(low, 1)),
          _mm256_cvtepi8_epi16(_mm256_castsi256_si128(high)), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(high, 1))};
      for (int r = 0; r < kRows; ++r) AddBytes(a + r * a_step, words, sums[r]);
    } else {
      for (int r = 0; r < kRows; ++r) {
        const __m256i x = _mm256_set1_epi32(Word(a + r * a_step));
        sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(x, low));
        sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(x, high));
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    int32_t* const row = out + r * kPanel;
    if constexpr (Format::kGroup == 4) {
      alignas(32) int32_t pairs[32];
      for (int i = 0; i < 4; ++i) _mm256_store_si256(reinterpret_cast<__m256i*>(pairs + 8 * i), sums[r][i]);
      for (int j = 0; j < kQuantizedLanes; ++j) row[j] = pairs[2 * j] + pairs[2 * j + 1];
    } else {
      _mm256_store_si256(reinterpret_cast<__m256i*>(row), sums[r][0]);
      _mm256_store_si256(reinterpret_cast<__m256i*>(row + 8), sums[r][1]);
    }
  }
}

template <class Format, int kRows, int kVectors>
void Tile(const char* a, int64_t a_step, const char* weights, int64_t groups, int32_t* sums) {
  for (int v = 0; v < kVectors; ++v) {
    Columns<Format, kRows>(a, a_step, weights + v * 64, kVectors * 64, groups, sums + v * kQuantizedLanes);
  }
}

// In this order.
#include "cc/core/products/quantized_rows.h"

#include "cc/core/products/quantized_pack.h"

#include "cc/core/products/quantized_outliers.h"

#include "cc/core/products/quantized_loops.h"

}  // namespace
}  // namespace tf_booster::avx2_quantized
TFB_END_TARGET

namespace tf_booster {

const QuantizedLoops kAvx2Quantized = {avx2_quantized::PackPanel, avx2_quantized::Multiply};

}  // namespace tf_booster
