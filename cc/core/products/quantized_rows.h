// Activations rounded to integers, in plain loops that compilers vectorise. Included inside a level's namespace.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_ROWS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_ROWS_H_

// Smallest and largest element, 0 among them, the sum of absolute values, and the bits of the largest of these.
struct Range {
  float low = 0, high = 0, sum = 0;
  uint32_t largest = 0;
};

inline Range RangeOf(const float* x, int64_t k) {
  constexpr int64_t kLanes = 16;
  float low[kLanes] = {}, high[kLanes] = {}, sum[kLanes] = {};
  uint32_t largest[kLanes] = {};
  for (int64_t i = 0; i < k; i += kLanes) {
    const int64_t lanes = std::min(kLanes, k - i);
    for (int64_t l = 0; l < lanes; ++l) {
      low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
      high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
      sum[l] += std::abs(x[i + l]);
      largest[l] = std::max(largest[l], MagnitudeBits(x[i + l]));
    }
  }
  Range range;
  for (int64_t l = 0; l < kLanes; ++l) {
    range = {std::min(range.low, low[l]), std::max(range.high, high[l]), 0, std::max(range.largest, largest[l])};
  }
  range.sum = SumOfLanes(sum);
  return range;
}

// Two roundings of halves may be one more than kMaxInput together; less than 0 they are not, since the smallest element
// is rounded as `zero` was.
template <class Format>
inline void RoundRow(const float* x, int64_t k, float inverse, int32_t zero, char* to) {
  for (int64_t i = 0; i < k; ++i) {
    const int32_t value = std::min(RoundToInt(x[i] * inverse) + zero, Format::kMaxInput);
    if constexpr (Format::kGroup == 4) {
      to[i] = static_cast<char>(value);
    } else {
      const int16_t wide = static_cast<int16_t>(value);
      std::memcpy(to + 2 * i, &wide, sizeof(wide));
    }
  }
}

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_ROWS_H_
