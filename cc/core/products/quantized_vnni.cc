#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "cc/core/base/target.h"
#include "cc/core/products/quantized_levels.h"
#include "cc/core/products/quantized_rounding.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for ours.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

TFB_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2")
namespace tf_booster::vnni_quantized {
namespace {

// Of four vectors of sums each: 24 registers, which leave room for the four of weights and an activation.
constexpr int kTileRows = 6;

template <class Format>
inline __m512i Dot(__m512i sums, __m512i inputs, __m512i weights) {
  if constexpr (Format::kGroup == 4) return _mm512_dpbusd_epi32(sums, inputs, weights);
  return _mm512_dpwssd_epi32(sums, inputs, weights);
}

inline __m512i Broadcast(const char* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return _mm512_set1_epi32(word);
}

template <class Format, int kRows, int kVectors>
void Tile(const char* a, int64_t a_step, const char* weights, int64_t groups, int32_t* out) {
  __m512i sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_si512();
  }
  for (int64_t g = 0; g < groups; ++g, a += 4, weights += kVectors * 64) {
    __m512i w[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) w[v] = _mm512_load_si512(weights + v * 64);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i x = Broadcast(a + r * a_step);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Dot<Format>(sums[r][v], x, w[v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_si512(out + r * kPanel + v * kQuantizedLanes, sums[r][v]);
  }
}

// As quantized_rows.h has them.
struct Range {
  float low, high, sum;
  uint32_t largest;
};

inline __mmask16 First(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

inline Range RangeOf(const float* x, int64_t k) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  __m512 low = _mm512_setzero_ps(), high = low, sum = low;
  __m512i largest = _mm512_setzero_si512();
  const auto add = [&](__m512 v) {
    low = _mm512_min_ps(v, low);  // The second, where one is NaN.
    high = _mm512_max_ps(v, high);
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(v), magnitude);
    sum = _mm512_add_ps(sum, _mm512_castsi512_ps(bits));
    largest = _mm512_max_epu32(largest, bits);
  };
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) add(_mm512_loadu_ps(x + i));
  if (i < k) add(_mm512_maskz_loadu_ps(First(k - i), x + i));
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sum);
  return {_mm512_reduce_min_ps(low), _mm512_reduce_max_ps(high), SumOfLanes(lanes), _mm512_reduce_max_epu32(largest)};
}

template <class Format>
inline void RoundRow(const float* x, int64_t k, float inverse, int32_t zero, char* to) {
  const __m512 factor = _mm512_set1_ps(inverse);
  const __m512i offset = _mm512_set1_epi32(zero), most = _mm512_set1_epi32(Format::kMaxInput);
  const auto put = [&](__m512 v, __mmask16 mask, char* out) {
    const __m512i value = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(v, factor)), offset);
    const __m512i kept = _mm512_min_epi32(value, most);
    if constexpr (Format::kGroup == 4) {
      _mm_mask_storeu_epi8(out, mask, _mm512_cvtepi32_epi8(kept));
    } else {
      _mm256_mask_storeu_epi16(out, mask, _mm512_cvtepi32_epi16(kept));
    }
  };
  constexpr int64_t kBytes = 4 / Format::kGroup;
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) put(_mm512_loadu_ps(x + i), First(16), to + i * kBytes);
  if (i < k) put(_mm512_maskz_loadu_ps(First(k - i), x + i), First(k - i), to + i * kBytes);
}

// In this order.
#include "cc/core/products/quantized_pack.h"

#include "cc/core/products/quantized_outliers.h"

#include "cc/core/products/quantized_loops.h"

}  // namespace
}  // namespace tf_booster::vnni_quantized
TFB_END_TARGET

namespace tf_booster {

const QuantizedLoops kVnniQuantized = {vnni_quantized::PackPanel, vnni_quantized::Multiply};

}  // namespace tf_booster
