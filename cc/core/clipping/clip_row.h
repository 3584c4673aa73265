// One row clipped, on host and device. Each step rounds as the op of TensorFlow's clip_by_norm that it stands for, and
// sums are in the order of its CPU kernels: the bits are theirs.
#ifndef TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROW_H_
#define TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROW_H_

#include <cstdint>

#include "cc/core/base/exact_math.h"
#include "cc/core/gpu/pack.h"

namespace tf_booster {

// The sum of a row's terms as Eigen sums up rows of up to 8192 floats with vectors of 32 bytes: four vectors at a time
// where there are four, their sum, further vectors, the halves of what comes out, and then what does not fill a vector.
template <class Term>
TFB_HOST_DEVICE float SumOfTerms(int64_t size, const Term& term) {
  constexpr int kLanes = 8, kVectors = 4;
  float sums[kVectors][kLanes] = {};
  int64_t i = 0;
  for (; i + kVectors * kLanes <= size; i += kVectors * kLanes) {
    TFB_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      TFB_UNROLL
      for (int l = 0; l < kLanes; ++l) sums[v][l] = exact::Add(sums[v][l], term(i + v * kLanes + l));
    }
  }
  float* const sum = sums[0];
  TFB_UNROLL
  for (int v = 1; v < kVectors; ++v) {
    TFB_UNROLL
    for (int l = 0; l < kLanes; ++l) sum[l] = exact::Add(sum[l], sums[v][l]);
  }
  for (; i + kLanes <= size; i += kLanes) {
    TFB_UNROLL
    for (int l = 0; l < kLanes; ++l) sum[l] = exact::Add(sum[l], term(i + l));
  }
  TFB_UNROLL
  for (int l = 0; l < 4; ++l) sum[l] = exact::Add(sum[l], sum[l + 4]);
  float rest = 0;
  for (; i < size; ++i) rest = exact::Add(rest, term(i));
  return exact::Add(rest, exact::Add(exact::Add(sum[0], sum[2]), exact::Add(sum[1], sum[3])));
}

class RowClipping {
 public:
  TFB_HOST_DEVICE RowClipping(const float* row, int64_t dim, float max_norm)
      : row_(row), dim_(dim), max_norm_(max_norm) {
    const float squares = SumOfTerms(dim, [=](int64_t i) { return exact::Mul(row[i], row[i]); });
    positive_ = squares > 0;
    root_ = positive_ ? exact::Sqrt(squares) : 1.0f;
    norm_ = positive_ ? root_ : squares;
    divisor_ = norm_ < max_norm ? max_norm : norm_;  // A NaN stays one.
  }

  TFB_HOST_DEVICE void Clip(float* out) const {
    for (int64_t i = 0; i < dim_; ++i) out[i] = exact::Div(exact::Mul(row_[i], max_norm_), divisor_);
  }

  // halved_first: of the root's gradient. TensorFlow's CPU kernel halves the gradient before it divides, in the last
  // few rows of a tensor, and else divides 0.5.
  TFB_HOST_DEVICE void Gradient(const float* grad, bool halved_first, float* out) const {
    const float of_squares = OfSquares(grad, halved_first);
    for (int64_t i = 0; i < dim_; ++i) {
      const float twice = exact::Mul(of_squares, row_[i]);
      const float direct = exact::Mul(exact::Div(grad[i], divisor_), max_norm_);
      out[i] = exact::Add(exact::Add(direct, twice), twice);
    }
  }

 private:
  // The gradient of the sum of squares.
  TFB_HOST_DEVICE float OfSquares(const float* grad, bool halved_first) const {
    if (!(norm_ >= max_norm_)) return 0;
    const float of_norm = SumOfTerms(dim_, [&](int64_t i) {
      const float scaled = -exact::Mul(row_[i], max_norm_);
      return exact::Mul(grad[i], exact::Div(exact::Div(scaled, divisor_), divisor_));
    });
    if (!positive_) return of_norm;
    if (of_norm == 0) return 0;
    return halved_first ? exact::Div(exact::Mul(0.5f, of_norm), root_) : exact::Mul(exact::Div(0.5f, root_), of_norm);
  }

  const float* const row_;
  const int64_t dim_;
  const float max_norm_;
  bool positive_;
  float root_, norm_, divisor_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROW_H_
