#include "cc/core/products/quantized_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/products/quantized_case.h"

namespace tf_booster {
namespace {

using testing::Bound;
using testing::Case;
using testing::OfRow;
using testing::Random;
using testing::Reference;
using testing::Rounding;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) ? !std::isnan(b[i]) : std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return false;
  }
  return true;
}

void CheckAgainstFloat(const Case& c, const std::vector<float>& found) {
  for (int64_t row = 0; row < c.m; ++row) {
    for (int64_t j = 0; j < c.n; ++j) {
      double want = 0;
      for (int64_t i = 0; i < c.k; ++i) want += static_cast<double>(c.a[row * c.k + i]) * c.weight(i, j);
      if (c.with_bias) want += c.bias[j];
      if (c.relu) want = std::max(want, 0.0);
      EXPECT_TRUE(std::abs(found[row * c.n + j] - want) <= Bound(c, row, j));
    }
  }
}

void CheckAllLevels(const Case& c) {
  const std::vector<float> want = Reference(c);
  for (const QuantizedLevel level : RunnableQuantizedLevels()) {
    const std::vector<float> found = c.Run(level);
    if (SameBits(found, want)) continue;
    EXPECT_EQ(std::string("other bits at level ") + QuantizedLevelName(level) + ", [" + std::to_string(c.m) + ", " +
                  std::to_string(c.k) + "] x [" + std::to_string(c.k) + ", " + std::to_string(c.n) + "]",
              "");
  }
}

constexpr QuantizedType kTypes[] = {QuantizedType::kInt8, QuantizedType::kInt16};

TEST(EverySizeHasTheReferencesBits) {
  int seed = 0;
  for (const QuantizedType type : kTypes) {
    for (const int64_t m : {0, 1, 2, 5, 6, 7, 13, 48, 55}) {
      for (const int64_t k : {0, 1, 2, 3, 4, 7, 16, 33}) {
        for (const int64_t n : {0, 1, 15, 16, 17, 48, 63, 64, 65, 130}) CheckAllLevels(Case(++seed, type, m, k, n));
      }
    }
  }
}

TEST(RandomSizes) {
  for (int seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const int64_t m = random.Below(20), k = random.Below(900), n = random.Below(200);
    const Case c(seed, kTypes[seed % 2], m, k, n);
    CheckAllLevels(c);
    CheckAgainstFloat(c, c.Run(BestQuantizedLevel()));
  }
}

// Each term the largest there is, so that a sum of one more would not fit; of both signs.
TEST(SumsDoNotOverflow) {
  for (const QuantizedType type : kTypes) {
    for (const float sign : {1.0f, -1.0f}) {
      Case c(1, type, 2, 0, 3);
      c.k = c.block() + (type == QuantizedType::kInt8 ? 1000 : 3);
      c.transposed = c.relu = false;
      c.a.assign(c.m * c.k, 2.0f);
      c.b.assign(c.k * c.n, 3.0f * sign);
      std::fill(c.a.begin() + c.k, c.a.end(), -2.0f);  // A zero point of kMaxInput.
      CheckAllLevels(c);
      CheckAgainstFloat(c, c.Run(BestQuantizedLevel()));
    }
  }
}

TEST(WhatIsNotFiniteIsAsInFloat32) {
  for (const QuantizedType type : kTypes) {
    for (const bool transposed : {false, true}) {
      for (const float bad : {kNan, kInfinity, -kInfinity}) {
        Case c(3, type, 9, 37, 70);
        c.transposed = transposed;
        c.relu = false;
        c.a[2 * c.k + 36] = bad;
        c.a[4 * c.k] = 0;
        c.weight(0, 5) = bad;
        c.weight(11, 69) = bad;
        CheckAllLevels(c);
        const std::vector<float> found = c.Run(BestQuantizedLevel());
        for (int64_t i = 0; i < c.m * c.n; ++i) {
          const bool meets = i / c.n == 2 || i % c.n == 5 || i % c.n == 69;
          EXPECT_EQ(std::isfinite(found[i]), !meets);
        }
        EXPECT_TRUE(std::isnan(found[4 * c.n + 5]));  // 0 times infinity.
        c.relu = true;
        EXPECT_TRUE(std::isnan(c.Run(BestQuantizedLevel())[4 * c.n + 5]));
      }
    }
  }
}

// Of all elements as large as `size`: of rows, of columns.
TEST(SmallAndLargeNumbers) {
  for (const QuantizedType type : kTypes) {
    for (const float size : {0.0f, 1e-45f, 1e-39f, 1e-35f, 0x1p-101f, 0x1p-99f, 1e30f, 1e38f, 3e38f}) {
      Case c(7, type, 8, 21, 35);
      c.relu = false;
      for (int64_t i = 0; i < c.k; ++i) {
        c.a[c.k + i] *= size;
        c.a[5 * c.k + i] = i % 2 == 0 ? size : -size;
        c.weight(i, 3) *= size;
        c.weight(i, 34) = size;
      }
      CheckAllLevels(c);
      const std::vector<float> found = c.Run(BestQuantizedLevel());
      for (int64_t i = 0; i < c.m * c.n; ++i) {
        const bool meets = i / c.n == 1 || i / c.n == 5 || i % c.n == 3 || i % c.n == 34;
        EXPECT_TRUE(meets || std::isfinite(found[i]));
      }
      if (size < 1) CheckAgainstFloat(c, found);
    }
  }
}

TEST(LargeRowsOfWhichTheProductIsFinite) {
  for (const QuantizedType type : kTypes) {
    for (const float size : {1e17f, 1e18f, 1e19f, 1e30f, 1e36f}) {
      Case c(9, type, 8, 70, 35);
      c.relu = false;
      for (float& x : c.a) x *= size;
      CheckAllLevels(c);
      const std::vector<float> found = c.Run(BestQuantizedLevel());
      for (const float x : found) EXPECT_TRUE(std::isfinite(x));
      CheckAgainstFloat(c, found);
    }
  }
}

// Numbers that nobody normalised, beside embeddings: the others keep a precision that is theirs.
TEST(OutliersAreMultipliedInFloat32) {
  for (const QuantizedType type : kTypes) {
    for (const bool transposed : {false, true}) {
      Case c(5, type, 40, 130, 70);
      c.transposed = transposed;
      for (int64_t row = 0; row < c.m; ++row) {
        for (int64_t i = 0; i < c.k; ++i) c.a[row * c.k + i] *= 0.05f;
        for (int64_t i = 0; i < row % 7; ++i) c.a[row * c.k + 17 * i] = (i % 2 == 0 ? -1e5f : 300.0f) * (1 + row);
      }
      CheckAllLevels(c);
      const std::vector<float> found = c.Run(BestQuantizedLevel());
      CheckAgainstFloat(c, found);
      for (int64_t row = 0; row < c.m; ++row) {
        const Rounding rounding = OfRow(c, row);
        const int64_t count = std::count(rounding.outlier.begin(), rounding.outlier.end(), true);
        EXPECT_EQ(count, row % 7 > 4 ? 3 * (row % 7 == 5) + 3 * (row % 7 == 6) : row % 7);
        if (row % 7 <= 4) EXPECT_TRUE(rounding.scale * c.max_input() < 0.2f);
      }
    }
  }
}

// By their exponents.
TEST(OutliersAreThreeTwosAway) {
  for (const float outlier : {0.0625f, 0.1249f, 0.124f * 0.5f}) {
    Case c(6, QuantizedType::kInt8, 1, 128, 16);
    std::fill(c.a.begin(), c.a.end(), 0.0005f);
    std::fill(c.a.begin() + 50, c.a.begin() + 55, 0.0125f);  // More than one in 32. Its exponent is -7.
    c.a[9] = outlier;
    CheckAllLevels(c);
    const bool found = outlier >= 0.0625f;  // Whose exponent is -4.
    EXPECT_EQ(OfRow(c, 0).outlier[9], found);
  }
}

TEST(ARowDoesNotDependOnOthersNorOnThreads) {
  for (const QuantizedType type : kTypes) {
    const Case c(11, type, 700, 50, 70);
    ThreadFor threads(4);
    for (const QuantizedLevel level : RunnableQuantizedLevels()) {
      const std::vector<float> all = c.Run(level);
      EXPECT_TRUE(SameBits(all, c.Run(level, threads)));
      for (const int64_t row : {0, 5, 6, 47, 48, 699}) {
        Case one = c;
        one.m = 1;
        one.a.assign(c.a.begin() + row * c.k, c.a.begin() + (row + 1) * c.k);
        EXPECT_TRUE(SameBits(one.Run(level), {all.begin() + row * c.n, all.begin() + (row + 1) * c.n}));
      }
    }
  }
}

// Twelve bits are 16 times as fine as eight.
TEST(Int16IsFinerThanInt8) {
  double errors[2] = {};
  for (const QuantizedType type : kTypes) {
    Case c(13, type, 40, 300, 50);
    c.relu = false;
    const std::vector<float> found = c.Run(BestQuantizedLevel());
    for (int64_t i = 0; i < c.m * c.n; ++i) {
      double want = c.with_bias ? c.bias[i % c.n] : 0;
      for (int64_t t = 0; t < c.k; ++t) want += static_cast<double>(c.a[i / c.n * c.k + t]) * c.weight(t, i % c.n);
      errors[static_cast<int>(type)] += std::abs(found[i] - want);
    }
  }
  EXPECT_TRUE(errors[1] < errors[0] / 10);
  EXPECT_TRUE(errors[1] > 0);
}

}  // namespace
}  // namespace tf_booster
