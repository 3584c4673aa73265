#include "cc/core/products/gathered_products.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

struct Sizes {
  int64_t m, n, k;
  std::vector<int64_t> left_inner, right_inner;
};

const Sizes kSizes[] = {
    {1, 7, 5, {0}, {0}},         {1, 1, 9, {0}, {0}}, {6, 1, 4, {0}, {0}},
    {1, 18, 3, {0, 1}, {1, 0}},  {3, 5, 2, {0}, {0}}, {2, 3, 4, {0, 1, 2}, {0, 0, 1}},
    {17, 1, 33, {0, 0}, {0, 1}}, {4, 9, 1, {0}, {0}}, {1, 50, 600, {0}, {0}},
    {0, 4, 3, {0}, {0}},         {2, 2, 0, {0}, {0}},
};

int64_t MatricesOf(const std::vector<int64_t>& inner) { return *std::max_element(inner.begin(), inner.end()) + 1; }

std::vector<float> Random(int64_t size, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

float At(const MatrixRows& side, int64_t row, int64_t h, int64_t height, int64_t width, int64_t i, int64_t j) {
  const float* matrix = side.data + (row * side.matrices + side.inner[h]) * height * width;
  return side.transposed ? matrix[j * height + i] : matrix[i * width + j];
}

// In double, element by element.
void Check(const GatheredProducts& p) {
  const int64_t inner = static_cast<int64_t>(p.left.inner.size());
  for (int64_t row = 0; row < p.count; ++row) {
    const int64_t other = p.other_has_one_row ? 0 : row;
    const int64_t left = p.left_is_gathered ? p.rows[row] : other, right = p.left_is_gathered ? other : p.rows[row];
    for (int64_t h = 0; h < inner; ++h) {
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = 0, size = 0;
          for (int64_t k = 0; k < p.k; ++k) {
            const double term =
                static_cast<double>(At(p.left, left, h, p.m, p.k, i, k)) * At(p.right, right, h, p.k, p.n, k, j);
            sum += term;
            size += std::abs(term);
          }
          const float found = p.c[((row * inner + h) * p.m + i) * p.n + j];
          EXPECT_TRUE(std::abs(found - sum) <= 1e-6 * size + 1e-30);
        }
      }
    }
  }
}

TEST(EveryForm) {
  std::mt19937 random(1);
  ThreadFor threads(3);
  const std::vector<std::vector<int64_t>> orders = {{}, {0}, {2, 2, 2, 0, 0, 4, 2}, {3, 0, 1, 3, 0}};
  constexpr int64_t kFew = 5;
  for (const Sizes& s : kSizes) {
    for (const auto& rows : orders) {
      for (int form = 0; form < 16; ++form) {
        GatheredProducts p;
        p.left_is_gathered = form & 1;
        p.other_has_one_row = form & 2;
        p.rows = rows.data();
        p.count = static_cast<int64_t>(rows.size());
        p.m = s.m;
        p.n = s.n;
        p.k = s.k;
        p.left.transposed = form & 4;
        p.right.transposed = form & 8;
        p.left.inner = s.left_inner;
        p.right.inner = s.right_inner;
        p.left.matrices = MatricesOf(s.left_inner);
        p.right.matrices = MatricesOf(s.right_inner);
        const int64_t own = p.other_has_one_row ? 1 : p.count;
        const auto left = Random((p.left_is_gathered ? kFew : own) * p.left.matrices * s.m * s.k, random);
        const auto right = Random((p.left_is_gathered ? own : kFew) * p.right.matrices * s.k * s.n, random);
        std::vector<float> c(p.count * s.left_inner.size() * s.m * s.n, NAN);
        p.left.data = left.data();
        p.right.data = right.data();
        p.c = c.data();
        MultiplyGathered(p, threads);
        Check(p);
      }
    }
  }
}

// A row's bits are the same wherever it stands in the batch, and whatever its neighbours read.
TEST(RowsDoNotDependOnTheBatch) {
  std::mt19937 random(2);
  SerialFor serial;
  constexpr int64_t kRows = 37, kHistory = 50, kDim = 24, kUsers = 4;
  const std::vector<float> queries = Random(kRows * kDim, random), keys = Random(kUsers * kHistory * kDim, random);
  std::vector<int64_t> rows(kRows);
  for (int64_t i = 0; i < kRows; ++i) rows[i] = i * kUsers / kRows;
  for (const bool turned : {false, true}) {
    GatheredProducts p;
    p.m = 1;
    p.k = turned ? kDim : kHistory;
    p.n = turned ? kHistory : kDim;
    const std::vector<float> own = Random(kRows * p.k, random);
    std::vector<float> together(kRows * p.n), apart(p.n);
    p.left.data = own.data();
    p.right.data = keys.data();
    p.right.transposed = turned;
    p.rows = rows.data();
    p.count = kRows;
    p.c = together.data();
    MultiplyGathered(p, serial);
    for (int64_t i = 0; i < kRows; ++i) {
      GatheredProducts one = p;
      one.left.data = own.data() + i * p.k;
      one.rows = &rows[i];
      one.count = 1;
      one.c = apart.data();
      MultiplyGathered(one, serial);
      for (int64_t j = 0; j < p.n; ++j) EXPECT_EQ(apart[j], together[i * p.n + j]);
    }
  }
}

// A stack of which few rows are read may be much larger than the batch: only these are turned.
TEST(RowsThatNobodyReadsAreNotTouched) {
  std::mt19937 random(3);
  SerialFor serial;
  std::vector<float> right = Random(2 * 6 * 5, random);
  const std::vector<float> left = Random(6, random);
  const int64_t rows[] = {int64_t{1} << 20};
  std::vector<float> c(5);
  GatheredProducts p;
  p.m = 1;
  p.n = 5;
  p.k = 6;
  p.left.data = left.data();
  p.right.data = right.data() - (int64_t{1} << 20) * 30;  // Row 2^20 of it is row 0 of `right`.
  p.right.transposed = true;
  p.rows = rows;
  p.count = 1;
  p.c = c.data();
  MultiplyGathered(p, serial);
  for (int64_t j = 0; j < 5; ++j) {
    double sum = 0;
    for (int64_t k = 0; k < 6; ++k) sum += static_cast<double>(left[k]) * right[j * 6 + k];
    EXPECT_TRUE(std::abs(c[j] - sum) < 1e-5);
  }
}

}  // namespace
}  // namespace tf_booster
