#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "cc/core/base/target.h"
#include "cc/core/products/pair_dots_levels.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for ours.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

TFB_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
namespace tf_booster::avx512_pairs {
namespace {

constexpr int64_t kLanes = 16;
// Sums of one vector each, which hide that a multiply-add takes four cycles: the 27 fields of Criteo's data are three
// times 9. With 8 rows the product took 182 ns in place of 140, with 7 146.
constexpr int64_t kGradientRows = 9;
// Two vectors of columns of as many rows leave four registers for what they are made of. Criteo's 26 rows of dots are
// twice 13: 283 ns an example with what is read and written, with 9 rows 303, with 4 287.
constexpr int64_t kLowerRows = 13;

using Vector = __m512;

inline Vector Zero() { return _mm512_setzero_ps(); }
inline Vector LoadVector(const float* from) { return _mm512_loadu_ps(from); }
inline void StoreVector(float* to, Vector v) { _mm512_storeu_ps(to, v); }
inline void StoreFirst(float* to, Vector v, int64_t n) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), v);
}
inline Vector Broadcast(const float* from) { return _mm512_set1_ps(*from); }
inline Vector MultiplyAdd(Vector a, Vector b, Vector sum) { return _mm512_fmadd_ps(a, b, sum); }

inline void CopyVector(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreVector(to + i, LoadVector(from + i));
  if (i == n) return;
  const __mmask16 rest = static_cast<__mmask16>((1u << (n - i)) - 1);
  _mm512_mask_storeu_ps(to + i, rest, _mm512_maskz_loadu_ps(rest, from + i));
}

inline void CopyRun(const float* from, int64_t n, float* to, int64_t) { CopyVector(from, n, to); }

// In this order.
#include "cc/core/products/pair_dots_tiles.h"

#include "cc/core/products/pair_dots_loops.h"

}  // namespace
}  // namespace tf_booster::avx512_pairs
TFB_END_TARGET

namespace tf_booster {

const PairLoops kAvx512Pairs = {avx512_pairs::DotRows, avx512_pairs::GradientRows};

}  // namespace tf_booster
