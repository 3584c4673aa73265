// Float arithmetic that gives the same bits on every host and device: each operation rounds once, nothing is fused, and
// functions come from here instead of a libm that differs between machines.
#ifndef TF_BOOSTER_CC_CORE_BASE_EXACT_MATH_H_
#define TF_BOOSTER_CC_CORE_BASE_EXACT_MATH_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cc/core/base/host_device.h"

namespace tf_booster {
namespace exact {

// nvcc fuses a * b + c into one rounding unless told by these; host code is compiled with -ffp-contract=off.
TFB_HOST_DEVICE float Mul(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

TFB_HOST_DEVICE float Add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

TFB_HOST_DEVICE float Sub(float a, float b) { return Add(a, -b); }

TFB_HOST_DEVICE float Div(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

TFB_HOST_DEVICE float Sqrt(float a) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

TFB_HOST_DEVICE uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

TFB_HOST_DEVICE float FloatOf(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// Natural logarithm of a positive normal number, to 2e-7 of max(1, |log x|). x = m * 2^e with m in [sqrt(1/2),
// sqrt(2)), and log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172; the first dropped term, 2 s^11 / 11, is below
// 1e-9.
TFB_HOST_DEVICE float Log(float x) {
  const uint32_t kSqrtHalf = 0x3F3504F3u;
  const uint32_t shifted = BitsOf(x) - kSqrtHalf;
  const float e = static_cast<float>(static_cast<int32_t>(shifted) >> 23);
  const float f = Sub(FloatOf((shifted & 0x007FFFFFu) + kSqrtHalf), 1.0f);
  const float s = Div(f, Add(f, 2.0f));
  const float q = Mul(s, s);
  float p = 1.0f / 9;
  p = Add(Mul(p, q), 1.0f / 7);
  p = Add(Mul(p, q), 1.0f / 5);
  p = Add(Mul(p, q), 1.0f / 3);
  p = Add(Mul(p, q), 1.0f);
  return Add(Mul(Mul(2.0f, s), p), Mul(e, 0.693147181f));
}

// Inverse of the error function at x, given w = -log((1 - x) (1 + x)), for w < 5 and for other w: M. Giles,
// "Approximating the erfinv function", GPU Computing Gems 2 (2010), single precision. Relative error below 4e-7 up to w
// = 16.
TFB_HOST_DEVICE float ErfInvCentral(float x, float w) {
  w = Sub(w, 2.5f);
  float p = 2.81022636e-08f;
  p = Add(3.43273939e-07f, Mul(p, w));
  p = Add(-3.5233877e-06f, Mul(p, w));
  p = Add(-4.39150654e-06f, Mul(p, w));
  p = Add(0.00021858087f, Mul(p, w));
  p = Add(-0.00125372503f, Mul(p, w));
  p = Add(-0.00417768164f, Mul(p, w));
  p = Add(0.246640727f, Mul(p, w));
  p = Add(1.50140941f, Mul(p, w));
  return Mul(p, x);
}

TFB_HOST_DEVICE float ErfInvTail(float x, float w) {
  w = Sub(Sqrt(w), 3.0f);
  float p = -0.000200214257f;
  p = Add(0.000100950558f, Mul(p, w));
  p = Add(0.00134934322f, Mul(p, w));
  p = Add(-0.00367342844f, Mul(p, w));
  p = Add(0.00573950773f, Mul(p, w));
  p = Add(-0.0076224613f, Mul(p, w));
  p = Add(0.00943887047f, Mul(p, w));
  p = Add(1.00167406f, Mul(p, w));
  p = Add(2.83297682f, Mul(p, w));
  return Mul(p, x);
}

}  // namespace exact
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_EXACT_MATH_H_
