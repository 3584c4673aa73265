#include "cc/core/products/pair_dots.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

// Levels that have loops of their own and run here.
std::vector<SimdLevel> Levels() {
  std::vector<SimdLevel> levels;
  for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level <= PairDotsLevel()) levels.push_back(level);
  }
  return levels;
}

// Dots and their gradients are columns of wider matrices: `before` columns, the dots, `after` columns.
struct Case {
  int64_t rows, dim, before, after, fields = 0;
  std::vector<int64_t> widths, pairs;
  std::vector<std::vector<float>> values, gradients;
  std::vector<float> upstream, dots;

  // kind: 0 below the diagonal, 1 with it, 2 above it, 3 every third of all, in any order, 4 one, 5 below the diagonal,
  // the last row's first.
  Case(int seed, int64_t rows, int64_t dim, std::vector<int64_t> part_fields, int kind, int64_t before = 0,
       int64_t after = 0)
      : rows(rows), dim(dim), before(before), after(after), widths(part_fields) {
    for (const int64_t width : widths) fields += width;
    for (int64_t i = 0; i < fields; ++i) {
      for (int64_t j = 0; j < fields; ++j) {
        if (kind == 0   ? j < i
            : kind == 1 ? j <= i
            : kind == 2 ? j > i
            : kind == 3 ? (i * fields + j) % 3 == 0
            : kind == 4 ? i == 1 && j == 0
                        : false) {
          pairs.push_back(i * fields + j);
        }
      }
    }
    if (kind == 5) {
      for (int64_t i = fields - 1; i > 0; --i) {
        for (int64_t j = 0; j < i; ++j) pairs.push_back(i * fields + j);
      }
    }
    std::mt19937 random(seed);
    if (kind == 3) std::shuffle(pairs.begin(), pairs.end(), random);
    std::normal_distribution<float> normal;
    for (const int64_t width : widths) {
      values.emplace_back(rows * width * dim);
      for (float& value : values.back()) value = normal(random);
      gradients.emplace_back(rows * width * dim + 1, -7.0f);
    }
    // Where nothing may be read, there is what no sum would survive.
    upstream.assign(rows * Step(), std::numeric_limits<float>::quiet_NaN());
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t p = 0; p < pairs.size(); ++p) upstream[At(row, p)] = normal(random);
    }
    dots.assign(rows * Step(), -7.0f);
  }

  int64_t Step() const { return before + static_cast<int64_t>(pairs.size()) + after; }
  size_t At(int64_t row, int64_t place) const { return row * Step() + before + place; }

  std::vector<FieldPart<const float>> Parts() const {
    std::vector<FieldPart<const float>> parts;
    for (size_t p = 0; p < widths.size(); ++p) parts.push_back({values[p].data(), widths[p]});
    return parts;
  }

  std::vector<FieldPart<float>> Gradients() {
    std::vector<FieldPart<float>> parts;
    for (size_t p = 0; p < widths.size(); ++p) parts.push_back({gradients[p].data(), widths[p]});
    return parts;
  }

  void Run(SimdLevel level, ParallelFor& pf) {
    const PairPlan plan(fields, pairs);
    std::vector<int> also(rows, 0);
    const auto count = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) ++also[row];
    };
    DotPairs(plan, rows, dim, Parts(), {dots.data() + before, Step()}, pf, count, level);
    EXPECT_TRUE(also == std::vector<int>(rows, 1));
    DotPairsGradient(plan, rows, dim, {upstream.data() + before, Step()}, Parts(), Gradients(), pf, level);
  }

  // The vector of a field, in `of`.
  const float* Vector(const std::vector<std::vector<float>>& of, int64_t row, int64_t field) const {
    size_t part = 0;
    for (; field >= widths[part]; ++part) field -= widths[part];
    return of[part].data() + (row * widths[part] + field) * dim;
  }

  void Check() const {
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<double> want(fields * dim, 0.0), size(fields * dim, 0.0);
      for (size_t p = 0; p < pairs.size(); ++p) {
        const int64_t i = pairs[p] / fields, j = pairs[p] % fields;
        const float *a = Vector(values, row, i), *b = Vector(values, row, j);
        const double up = upstream[At(row, p)];
        double dot = 0, terms = 0;
        for (int64_t d = 0; d < dim; ++d) {
          dot += static_cast<double>(a[d]) * b[d];
          terms += std::abs(static_cast<double>(a[d]) * b[d]);
          for (const auto& [to, from] : {std::pair(i, b), std::pair(j, a)}) {
            want[to * dim + d] += up * from[d];
            size[to * dim + d] += std::abs(up * from[d]);
          }
        }
        EXPECT_TRUE(std::abs(dots[At(row, p)] - dot) <= 1e-6 * terms);
      }
      for (int64_t i = 0; i < fields; ++i) {
        for (int64_t d = 0; d < dim; ++d) {
          EXPECT_TRUE(std::abs(Vector(gradients, row, i)[d] - want[i * dim + d]) <= 1e-6 * size[i * dim + d]);
        }
      }
    }
    for (int64_t at = 0; at < static_cast<int64_t>(dots.size()); ++at) {
      const int64_t column = at % Step() - before;
      if (column < 0 || column >= static_cast<int64_t>(pairs.size())) EXPECT_TRUE(dots[at] == -7.0f);
    }
    for (const auto& gradient : gradients) EXPECT_TRUE(gradient.back() == -7.0f);
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  int seed = 0;
  for (const int kind : {0, 1, 2, 3, 4, 5}) {
    for (const int64_t dim : {1, 3, 8, 13, 16, 20, 32, 40}) {
      const int64_t after = dim % 3;  // 0: vectors behind the last dot are behind the end of the memory, too.
      cases.emplace_back(++seed, 7, dim, std::vector<int64_t>(27, 1), kind, 16, after);
      cases.emplace_back(++seed, 2, dim, std::vector<int64_t>{9}, kind, 0, after);
      cases.emplace_back(++seed, 2, dim, std::vector<int64_t>{17}, kind, 1, after);
      cases.emplace_back(++seed, 5, dim, std::vector<int64_t>{1, 4, 2}, kind, 3, after);
    }
  }
  cases.emplace_back(++seed, 0, 16, std::vector<int64_t>{5}, 0);
  cases.emplace_back(++seed, 4, 16, std::vector<int64_t>{1}, 0);  // No pair.
  cases.emplace_back(++seed, 4, 16, std::vector<int64_t>{1}, 0, 2, 1);
  cases.emplace_back(++seed, 4, 16, std::vector<int64_t>{1}, 1);             // With itself.
  cases.emplace_back(++seed, 4, 6, std::vector<int64_t>{2}, 0, 0, 1);        // One pair.
  cases.emplace_back(++seed, 3000, 4, std::vector<int64_t>{1, 1, 1, 1}, 0);  // For all threads.
  return cases;
}

TEST(DotsAndGradients) {
  ThreadFor threads(3);
  for (const SimdLevel level : Levels()) {
    for (Case& c : Cases()) {
      c.Run(level, threads);
      c.Check();
    }
  }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool SameBits(const Case& a, const Case& b) {
  bool same = SameBits(a.dots, b.dots);
  for (size_t p = 0; p < a.gradients.size(); ++p) same = same && SameBits(a.gradients[p], b.gradients[p]);
  return same;
}

// The vectors have an infinite element, or not.
TEST(LevelsWithMultiplyAddHaveTheSameBits) {
  if (PairDotsLevel() < SimdLevel::kAvx512) return;
  SerialFor serial;
  for (const bool infinite : {false, true}) {
    for (Case& c : Cases()) {
      if (infinite && !c.values[0].empty()) c.values[0].back() = std::numeric_limits<float>::infinity();
      Case other = c;
      c.Run(SimdLevel::kAvx2, serial);
      other.Run(SimdLevel::kAvx512, serial);
      EXPECT_TRUE(SameBits(c, other));
    }
  }
}

// Below the diagonal has a way of its own, which sums in the same order as others.
TEST(BitsDoNotDependOnTheOrderOfPairs) {
  SerialFor serial;
  for (const SimdLevel level : Levels()) {
    Case one(1, 5, 16, std::vector<int64_t>(27, 1), 0), other = one;
    const int64_t size = static_cast<int64_t>(one.pairs.size());
    std::reverse(other.pairs.begin(), other.pairs.end());
    for (int64_t row = 0; row < one.rows; ++row) {
      std::reverse(other.upstream.begin() + row * size, other.upstream.begin() + (row + 1) * size);
    }
    one.Run(level, serial);
    other.Run(level, serial);
    for (int64_t row = 0; row < one.rows; ++row) {
      std::reverse(other.dots.begin() + row * size, other.dots.begin() + (row + 1) * size);
    }
    EXPECT_TRUE(SameBits(one, other));
  }
}

TEST(BitsDoNotDependOnThreads) {
  Case one(1, 3000, 16, std::vector<int64_t>(6, 1), 0, 2, 3), many = one;
  SerialFor serial;
  ThreadFor threads(4);
  for (const SimdLevel level : Levels()) {
    one.Run(level, serial);
    many.Run(level, threads);
    EXPECT_TRUE(SameBits(one, many));
  }
}

TEST(BelowTheDiagonalIsKnown) {
  const auto lower = [](int64_t fields, const std::vector<int64_t>& pairs) { return PairPlan(fields, pairs).lower(); };
  EXPECT_TRUE(lower(3, {3, 6, 7}) == std::vector<int64_t>({0, 0, 1}));
  EXPECT_TRUE(lower(3, {6, 7, 3}) == std::vector<int64_t>({0, 2, 0}));
  EXPECT_TRUE(lower(3, {3, 7, 6}).empty());
  EXPECT_TRUE(lower(3, {3, 6}).empty());
  EXPECT_TRUE(lower(3, {3, 7, 8}).empty());
  EXPECT_TRUE(lower(3, {1, 6, 7}).empty());
  EXPECT_TRUE(lower(3, {1, 2, 5}).empty());
  EXPECT_TRUE(lower(3, {0, 3, 4, 6, 7, 8}).empty());
  EXPECT_TRUE(lower(3, {3, 6, 7, 8}).empty());
}

}  // namespace
}  // namespace tf_booster
