// A product and its weights for tests, and what becomes of them by the obvious loops, element by element.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_CASE_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_CASE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/products/quantized_products.h"

namespace tf_booster::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % n); }
  float Between(float low, float high) { return low + (high - low) * static_cast<float>(Next() >> 40) * 0x1p-24f; }

 private:
  uint64_t state_;
};

struct Case {
  QuantizedType type = QuantizedType::kInt8;
  int64_t m = 0, k = 0, n = 0;
  bool transposed = false, with_bias = true, relu = false;
  std::vector<float> a, b, bias;

  Case(int seed, QuantizedType type, int64_t m, int64_t k, int64_t n) : type(type), m(m), k(k), n(n) {
    Random random(seed);
    transposed = random.Below(3) == 0;
    with_bias = random.Below(4) != 0;
    relu = random.Below(2) == 0;
    const float low = random.Below(2) == 0 ? 0.0f : -1.5f;  // Behind a Relu, or not.
    for (int64_t i = 0; i < m * k; ++i) a.push_back(std::max(low, random.Between(-1.5f, 2)));
    for (int64_t i = 0; i < k * n; ++i) b.push_back(random.Between(-0.3f, 0.2f));
    for (int64_t j = 0; j < n; ++j) bias.push_back(random.Between(-1, 1));
  }

  float& weight(int64_t i, int64_t j) { return transposed ? b[j * k + i] : b[i * n + j]; }
  float weight(int64_t i, int64_t j) const { return transposed ? b[j * k + i] : b[i * n + j]; }

  float Ended(float value, int64_t j) const {
    if (with_bias) value += bias[j];
    return relu && value < 0 ? 0 : value;
  }

  std::vector<float> Run(QuantizedLevel level, ParallelFor& pf) const {
    std::vector<float> c(m * n + 1, -7);
    const QuantizedWeights weights(type, b.data(), k, n, transposed, pf, level);
    MultiplyQuantized({m, a.data(), with_bias ? bias.data() : nullptr, relu, c.data()}, weights, pf, level);
    EXPECT_EQ(c.back(), -7);
    c.pop_back();
    return c;
  }

  std::vector<float> Run(QuantizedLevel level) const {
    SerialFor serial;
    return Run(level, serial);
  }

  int32_t max_input() const { return type == QuantizedType::kInt8 ? 255 : 4095; }
  int32_t max_weight() const { return type == QuantizedType::kInt8 ? 127 : 2047; }
  int64_t block() const { return type == QuantizedType::kInt8 ? 65536 : 256; }
};

// What a vector is rounded with: value = scale * (integer - zero). in_float: it is not rounded.
struct Rounding {
  float scale = 0, inverse = 0;
  int32_t zero = 0;
  bool in_float = false;
  std::vector<bool> outlier;  // Of a row.
};

// The elements above a power of two that at most k / 32 are above, and all others at least three powers below the
// largest of these.
inline std::vector<bool> OutliersOf(const Case& c, int64_t row) {
  std::vector<int> exponents;
  float lanes[16] = {}, largest = 0;
  for (int64_t i = 0; i < c.k; ++i) {
    const float x = std::abs(c.a[row * c.k + i]);
    exponents.push_back(x < std::numeric_limits<float>::min() ? -127 : std::ilogb(x));
    lanes[i % 16] += x;
    largest = std::max(largest, x);
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  std::vector<bool> found(c.k, false);
  if (!(largest > lanes[0] * (32.0f / static_cast<float>(c.k)))) return found;
  std::vector<int> sorted = exponents;
  std::sort(sorted.rbegin(), sorted.rend());
  const int below = sorted[c.k / 32];  // The largest that cannot be an outlier.
  if (sorted[0] - below < 3) return found;
  for (int64_t i = 0; i < c.k; ++i) found[i] = exponents[i] > below;
  return found;
}

inline Rounding OfRow(const Case& c, int64_t row) {
  float low = 0, high = 0;
  Rounding rounding;
  bool finite = true;
  for (int64_t i = 0; i < c.k; ++i) finite = finite && std::isfinite(c.a[row * c.k + i]);
  rounding.in_float = !finite;
  rounding.outlier = finite ? OutliersOf(c, row) : std::vector<bool>(c.k, false);
  for (int64_t i = 0; i < c.k; ++i) {
    const float x = rounding.outlier[i] ? 0 : c.a[row * c.k + i];
    low = std::min(low, x);
    high = std::max(high, x);
  }
  const float width = high - low;
  rounding.in_float = rounding.in_float || width > 0x1p60f || (width != 0 && width < 0x1p-100f);
  if (rounding.in_float || width == 0) return rounding;
  rounding.inverse = c.max_input() / width;
  rounding.scale = width / c.max_input();
  rounding.zero = static_cast<int32_t>(std::nearbyint(-low * rounding.inverse));
  return rounding;
}

inline Rounding OfColumn(const Case& c, int64_t column) {
  float largest = 0;
  Rounding rounding;
  for (int64_t i = 0; i < c.k; ++i) {
    const float w = c.weight(i, column);
    rounding.in_float = rounding.in_float || !std::isfinite(w);
    largest = std::max(largest, std::abs(w));
  }
  rounding.in_float = rounding.in_float || (largest != 0 && largest < 0x1p-100f);
  if (rounding.in_float || largest == 0) return rounding;
  rounding.inverse = c.max_weight() / largest;
  rounding.scale = largest / c.max_weight();
  return rounding;
}

// Element by element.
inline std::vector<float> Reference(const Case& c) {
  std::vector<float> out;
  for (int64_t row = 0; row < c.m; ++row) {
    const Rounding of_row = OfRow(c, row);
    for (int64_t j = 0; j < c.n; ++j) {
      const Rounding of_column = OfColumn(c, j);
      float total = 0;
      if (of_row.in_float || of_column.in_float) {
        for (int64_t i = 0; i < c.k; ++i) total += c.a[row * c.k + i] * c.weight(i, j);
        out.push_back(c.Ended(total, j));
        continue;
      }
      for (int64_t begin = 0; begin < c.k; begin += c.block()) {
        int64_t sum = 0;
        for (int64_t i = begin; i < std::min(c.k, begin + c.block()); ++i) {
          const float x = of_row.outlier[i] ? 0 : c.a[row * c.k + i];
          const int64_t input = std::min<int64_t>(c.max_input(), std::nearbyint(x * of_row.inverse) + of_row.zero);
          EXPECT_TRUE(input >= 0);
          sum += (input - of_row.zero) * static_cast<int64_t>(std::nearbyint(c.weight(i, j) * of_column.inverse));
        }
        EXPECT_TRUE(std::abs(sum) <= std::numeric_limits<int32_t>::max());
        total += static_cast<float>(sum);
      }
      float rest = c.with_bias ? c.bias[j] : 0;
      for (int64_t i = 0; i < c.k; ++i) {
        if (of_row.outlier[i]) rest += c.a[row * c.k + i] * c.weight(i, j);
      }
      const float value = total * of_row.scale * of_column.scale + rest;
      out.push_back(c.relu && value < 0 ? 0 : value);
    }
  }
  return out;
}

// How far an element may be from the exact one: half a step of each factor, and float32's own rounding.
inline double Bound(const Case& c, int64_t row, int64_t column) {
  const Rounding x = OfRow(c, row), w = OfColumn(c, column);
  double bound = 0, terms = 0;
  for (int64_t i = 0; i < c.k; ++i) {
    const double input = std::abs(c.a[row * c.k + i]), weight = std::abs(c.weight(i, column));
    if (!x.outlier[i]) bound += 0.5 * (input * w.scale + weight * x.scale + 0.5 * x.scale * w.scale);
    terms += input * weight;
  }
  return bound * 1.0001 + 1e-6 * (terms + 1);
}

}  // namespace tf_booster::testing

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_CASE_H_
