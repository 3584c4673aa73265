// How floats become integers: to the nearest, ties to even, as processors' own conversion does.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_ROUNDING_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_ROUNDING_H_

#include <cstdint>
#include <cstring>

namespace tf_booster {

constexpr uint32_t kInfinityBits = 0x7F800000u;

// The bits of |x|: they are ordered as the values are, infinity and NaN last.
inline uint32_t MagnitudeBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits & 0x7FFFFFFFu;
}

// Of |x| < 2^22; any integer for others. By an addition that leaves no room for a fraction, which compilers vectorise.
inline int32_t RoundToInt(float x) {
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  return static_cast<int32_t>(bits - 0x4B400000u);
}

// Of 16, in an order that vectors have too: halves, quarters and so on. `lanes` is used up.
inline float SumOfLanes(float* lanes) {
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_ROUNDING_H_
