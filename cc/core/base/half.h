// Numbers of 16 bits, float16 (IEEE) and bfloat16, on host and device: each operation is float's, rounded to nearest
// even. For
// + - * / and roots that is the correctly rounded result (float has more than twice the bits), which is what Eigen's
// types give on the CPU. Storage is that of Eigen::half and Eigen::bfloat16.
#ifndef TF_BOOSTER_CC_CORE_BASE_HALF_H_
#define TF_BOOSTER_CC_CORE_BASE_HALF_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cc/core/base/host_device.h"

namespace tf_booster {

TFB_HOST_DEVICE uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
TFB_HOST_DEVICE float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The upper 32 - kDropped bits, to nearest even.
template <int kDropped>
TFB_HOST_DEVICE uint32_t DropBits(uint32_t bits) {
  return (bits + ((1u << (kDropped - 1)) - 1) + (bits >> kDropped & 1)) >> kDropped;
}

// 8 bits of exponent, as float, and 7 of fraction.
struct BFloat16Format {
  static constexpr float kEpsilon = 0x1p-7f;
  TFB_HOST_DEVICE static float Widen(uint16_t bits) { return FloatOfBits(uint32_t{bits} << 16); }
  TFB_HOST_DEVICE static uint16_t Round(float value) {
    if (!(value == value)) return static_cast<uint16_t>(FloatBits(value) >> 16 | 0x40);
    return static_cast<uint16_t>(DropBits<16>(FloatBits(value)));
  }
};

// 5 bits of exponent and 10 of fraction.
struct Float16Format {
  static constexpr float kEpsilon = 0x1p-10f;
  TFB_HOST_DEVICE static float Widen(uint16_t bits) {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16, rest = bits & 0x7FFFu;
    if (rest >= 0x7C00u) return FloatOfBits(sign | 0x7F800000u | (rest & 0x3FFu) << 13);  // Infinite, or no number.
    // The exponent's bias by a product, which normalises what has no leading one.
    const float size = FloatOfBits(rest << 13) * 0x1p112f;
    return FloatOfBits(sign | FloatBits(size));
  }
  TFB_HOST_DEVICE static uint16_t Round(float value) {
    const uint32_t bits = FloatBits(value), rest = bits & 0x7FFFFFFFu;
    const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
    if (rest > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
    if (rest >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // From 65520 on.
    // Below the least normal number an addition rounds: its sum's last place is 2^-24.
    if (rest < 0x38800000u)
      return static_cast<uint16_t>(sign | (FloatBits(FloatOfBits(rest) + 0.5f) - FloatBits(0.5f)));
    return static_cast<uint16_t>(sign | DropBits<13>(rest - 0x38000000u));
  }
};

template <class Format>
struct HalfNumber {
  static constexpr float kEpsilon = Format::kEpsilon;
  uint16_t bits;

  HalfNumber() = default;
  TFB_HOST_DEVICE HalfNumber(float value) : bits(Format::Round(value)) {}           // NOLINT: as any number's.
  TFB_HOST_DEVICE HalfNumber(int value) : HalfNumber(static_cast<float>(value)) {}  // NOLINT
  TFB_HOST_DEVICE explicit HalfNumber(double value) : HalfNumber(static_cast<float>(value)) {}
  TFB_HOST_DEVICE explicit operator float() const { return Format::Widen(bits); }

  TFB_HOST_DEVICE HalfNumber operator-() const {
    HalfNumber negative;
    negative.bits = static_cast<uint16_t>(bits ^ 0x8000u);
    return negative;
  }
  TFB_HOST_DEVICE friend HalfNumber operator+(HalfNumber a, HalfNumber b) { return float(a) + float(b); }
  TFB_HOST_DEVICE friend HalfNumber operator-(HalfNumber a, HalfNumber b) { return float(a) - float(b); }
  TFB_HOST_DEVICE friend HalfNumber operator*(HalfNumber a, HalfNumber b) { return float(a) * float(b); }
  TFB_HOST_DEVICE friend HalfNumber operator/(HalfNumber a, HalfNumber b) { return float(a) / float(b); }
  TFB_HOST_DEVICE HalfNumber& operator+=(HalfNumber b) { return *this = *this + b; }
  TFB_HOST_DEVICE HalfNumber& operator-=(HalfNumber b) { return *this = *this - b; }
  TFB_HOST_DEVICE friend bool operator<(HalfNumber a, HalfNumber b) { return float(a) < float(b); }
  TFB_HOST_DEVICE friend bool operator>(HalfNumber a, HalfNumber b) { return float(a) > float(b); }
  TFB_HOST_DEVICE friend bool operator==(HalfNumber a, HalfNumber b) { return float(a) == float(b); }
};
using Float16 = HalfNumber<Float16Format>;
using BFloat16 = HalfNumber<BFloat16Format>;

// Functions of all number types that formulas are written with.
template <class T>
TFB_HOST_DEVICE T Sqrt(T x) {
  return std::sqrt(x);
}
template <class T>
TFB_HOST_DEVICE T Abs(T x) {
  return std::abs(x);
}
template <class T>
TFB_HOST_DEVICE T Pow(T x, T power) {
  return std::pow(x, power);
}
template <class Format>
TFB_HOST_DEVICE HalfNumber<Format> Sqrt(HalfNumber<Format> x) {
  return std::sqrt(float(x));
}
template <class Format>
TFB_HOST_DEVICE HalfNumber<Format> Abs(HalfNumber<Format> x) {
  return std::abs(float(x));
}
template <class Format>
TFB_HOST_DEVICE HalfNumber<Format> Pow(HalfNumber<Format> x, HalfNumber<Format> power) {
  return std::pow(float(x), float(power));
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_HALF_H_
