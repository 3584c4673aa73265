// Pooling with a weight for each id: sum of w * e, divided by the sum of w (mean) or the root of that of w^2 (sqrtn).
#ifndef TF_BOOSTER_CC_CORE_POOLING_WEIGHTED_POOLING_H_
#define TF_BOOSTER_CC_CORE_POOLING_WEIGHTED_POOLING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cc/core/base/host_device.h"
#include "cc/core/pooling/segment_pooling.h"

namespace tf_booster {

// Eigen sums the columns that fill vectors of this many bytes in four interleaved sums from 16 rows on, and the rest
// one after the other; TensorFlow's wheels have vectors of 32 bytes (AVX).
inline constexpr int64_t kEigenVectorBytes = 32;
inline constexpr int64_t kEigenUnrolledRows = 16;

// What the sum of a row is divided by; 1 for kSum. One weight is copied, more are added to zero.
template <class T>
TFB_HOST_DEVICE T WeightDivisor(const float* weights, int64_t n, Combiner combiner) {
  if (combiner == Combiner::kSum) return T(1);
  const bool squares = combiner == Combiner::kSqrtN;
  const auto term = [&](int64_t i) {
    const T w = static_cast<T>(weights[i]);
    return squares ? w * w : w;
  };
  T sum(0);
  for (int64_t i = 0; i < n; ++i) sum += term(i);
  return squares ? std::sqrt(sum) : sum;
}

// As DivNoNan: division by zero gives zero.
template <class T>
void DivideNoNan(T* values, int64_t n, T divisor) {
  if (divisor == T(0)) {
    std::fill(values, values + n, T(0));
  } else {
    for (int64_t d = 0; d < n; ++d) values[d] /= divisor;
  }
}

template <class T, class Index>
void PoolWeightedRow(const T* embeddings, int64_t dim, const Index* idx, const float* weights, int64_t n,
                     Combiner combiner, T* out) {
  const auto add = [&](int64_t i, int64_t begin, int64_t end, T* sum) {
    const T* in = embeddings + int64_t{idx[i]} * dim;
    const T w = static_cast<T>(weights[i]);
    for (int64_t d = begin; d < end; ++d) sum[d - begin] += in[d] * w;
  };
  if (n == 1) {
    const T* in = embeddings + int64_t{idx[0]} * dim;
    for (int64_t d = 0; d < dim; ++d) out[d] = in[d] * static_cast<T>(weights[0]);
  } else {
    constexpr int64_t kVector = kEigenVectorBytes / static_cast<int64_t>(sizeof(T));
    const int64_t vectors = n >= kEigenUnrolledRows ? dim / kVector * kVector : 0;
    const int64_t unrolled = n / 4 * 4;
    std::fill(out, out + dim, T(0));
    for (int64_t begin = 0; begin < vectors; begin += kVector) {
      T sums[4][kVector] = {};
      for (int64_t i = 0; i < unrolled; ++i) add(i, begin, begin + kVector, sums[i & 3]);
      for (int k = 1; k < 4; ++k) {
        for (int64_t d = 0; d < kVector; ++d) sums[0][d] += sums[k][d];
      }
      for (int64_t i = unrolled; i < n; ++i) add(i, begin, begin + kVector, sums[0]);
      std::copy(sums[0], sums[0] + kVector, out + begin);
    }
    for (int64_t i = 0; i < n; ++i) add(i, vectors, dim, out + vectors);
  }
  if (combiner != Combiner::kSum) DivideNoNan(out, dim, WeightDivisor<T>(weights, n, combiner));
}

// The gradients of the embeddings [begin, end) of one lookup: each place adds (gradient / divisor) * weight.
template <class T>
void WeightedGradientRange(const PoolingGradientJob<T>& job, int64_t begin, int64_t end) {
  const PoolingSegments& s = job.segments;
  const int64_t dim = s.dim;
  std::fill(job.gradient + begin * dim, job.gradient + end * dim, T(0));
  std::vector<T> scaled(dim);
  const int64_t step = job.step();
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t first = s.row_splits[r], n = s.row_splits[r + 1] - first;
    if (s.zero_rows != nullptr && s.zero_rows[r]) {
      std::fill(scaled.begin(), scaled.end(), T(0));
    } else {
      std::copy(job.pooled_gradient + r * step, job.pooled_gradient + r * step + dim, scaled.begin());
    }
    if (s.combiner != Combiner::kSum) {
      DivideNoNan(scaled.data(), dim, WeightDivisor<T>(s.weights + first, n, s.combiner));
    }
    for (int64_t i = first; i < first + n; ++i) {
      const int64_t place = s.idx[i];
      if (place < begin || place >= end) continue;
      const T w = static_cast<T>(s.weights[i]);
      T* out = job.gradient + place * dim;
      for (int64_t d = 0; d < dim; ++d) out[d] += scaled[d] * w;
    }
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_WEIGHTED_POOLING_H_
