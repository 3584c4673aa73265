#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "cc/core/base/target.h"
#include "cc/core/products/pair_dots_levels.h"

TFB_BEGIN_TARGET("avx2,fma")
namespace tf_booster::avx2_pairs {
namespace {

constexpr int64_t kLanes = 8;
// With two vectors of columns eight sums, which hide that a multiply-add takes four cycles; more would not leave
// registers for what they are made of.
constexpr int64_t kGradientRows = 4;
constexpr int64_t kLowerRows = 0;  // Dots are put together and copied: stores of parts of a vector are slow on AMD's.

using Vector = __m256;

inline Vector Zero() { return _mm256_setzero_ps(); }
inline Vector LoadVector(const float* from) { return _mm256_loadu_ps(from); }
inline void StoreVector(float* to, Vector v) { _mm256_storeu_ps(to, v); }
inline Vector Broadcast(const float* from) { return _mm256_broadcast_ss(from); }
inline Vector MultiplyAdd(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }

inline void CopyVector(const float* from, int64_t n, float* to) {
  if (n % kLanes != 0) return std::copy(from, from + n, to), void();
  for (int64_t i = 0; i < n; i += kLanes) StoreVector(to + i, LoadVector(from + i));
}

// Copies `n` floats, behind which `room` may be written that are written later.
inline void CopyRun(const float* from, int64_t n, float* to, int64_t room) {
  int64_t i = 0;
  for (; i + kLanes <= n + std::min(room, kLanes - 1) && i < n; i += kLanes) StoreVector(to + i, LoadVector(from + i));
  if (i >= n) return;
  if (n >= kLanes) return StoreVector(to + n - kLanes, LoadVector(from + n - kLanes));
  std::copy(from + i, from + n, to + i);
}

// In this order.
#include "cc/core/products/pair_dots_tiles.h"

#include "cc/core/products/pair_dots_loops.h"

}  // namespace
}  // namespace tf_booster::avx2_pairs
TFB_END_TARGET

namespace tf_booster {

const PairLoops kAvx2Pairs = {avx2_pairs::DotRows, avx2_pairs::GradientRows};

}  // namespace tf_booster
