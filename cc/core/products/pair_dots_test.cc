#include "cc/core/products/pair_dots.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

struct Case {
  int64_t rows, dim, fields = 0;
  std::vector<int64_t> widths, pairs;
  std::vector<std::vector<float>> values, gradients;
  std::vector<float> upstream, dots;

  // kind: 0 below the diagonal, 1 with it, 2 above it, 3 every third of all, in any order, 4 one.
  Case(int seed, int64_t rows, int64_t dim, std::vector<int64_t> part_fields, int kind)
      : rows(rows), dim(dim), widths(part_fields) {
    for (const int64_t width : widths) fields += width;
    for (int64_t i = 0; i < fields; ++i) {
      for (int64_t j = 0; j < fields; ++j) {
        if (kind == 0   ? j < i
            : kind == 1 ? j <= i
            : kind == 2 ? j > i
            : kind == 3 ? (i * fields + j) % 3 == 0
                        : i == 1 && j == 0) {
          pairs.push_back(i * fields + j);
        }
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
    upstream.resize(rows * pairs.size());
    for (float& value : upstream) value = normal(random);
    dots.assign(rows * pairs.size() + 1, -7.0f);
  }

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
        const double up = upstream[row * pairs.size() + p];
        double dot = 0, terms = 0;
        for (int64_t d = 0; d < dim; ++d) {
          dot += static_cast<double>(a[d]) * b[d];
          terms += std::abs(static_cast<double>(a[d]) * b[d]);
          for (const auto& [to, from] : {std::pair(i, b), std::pair(j, a)}) {
            want[to * dim + d] += up * from[d];
            size[to * dim + d] += std::abs(up * from[d]);
          }
        }
        EXPECT_TRUE(std::abs(dots[row * pairs.size() + p] - dot) <= 1e-6 * terms);
      }
      for (int64_t i = 0; i < fields; ++i) {
        for (int64_t d = 0; d < dim; ++d) {
          EXPECT_TRUE(std::abs(Vector(gradients, row, i)[d] - want[i * dim + d]) <= 1e-6 * size[i * dim + d]);
        }
      }
    }
    EXPECT_TRUE(dots.back() == -7.0f);
    for (const auto& gradient : gradients) EXPECT_TRUE(gradient.back() == -7.0f);
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  int seed = 0;
  for (const int kind : {0, 1, 2, 3, 4}) {
    for (const int64_t dim : {1, 3, 8, 13, 16, 20}) {
      cases.emplace_back(++seed, 3, dim, std::vector<int64_t>(27, 1), kind);
      cases.emplace_back(++seed, 2, dim, std::vector<int64_t>{9}, kind);
      cases.emplace_back(++seed, 5, dim, std::vector<int64_t>{1, 4, 2}, kind);
    }
  }
  cases.emplace_back(++seed, 0, 16, std::vector<int64_t>{5}, 0);
  cases.emplace_back(++seed, 4, 16, std::vector<int64_t>{1}, 0);             // No pair.
  cases.emplace_back(++seed, 3000, 4, std::vector<int64_t>{1, 1, 1, 1}, 0);  // For all threads.
  return cases;
}

TEST(DotsAndGradients) {
  ThreadFor threads(3);
  for (Case& c : Cases()) {
    const PairPlan plan(c.fields, c.pairs);
    DotPairs(plan, c.rows, c.dim, c.Parts(), c.dots.data(), threads);
    DotPairsGradient(plan, c.rows, c.dim, c.upstream.data(), c.Parts(), c.Gradients(), threads);
    c.Check();
  }
}

TEST(WithoutFma) {
  for (Case& c : Cases()) {
    const PairPlan plan(c.fields, c.pairs);
    DotPairsPlainly(plan, c.rows, c.dim, c.Parts(), c.dots.data());
    DotPairsGradientPlainly(plan, c.rows, c.dim, c.upstream.data(), c.Parts(), c.Gradients());
    c.Check();
  }
}

TEST(BitsDoNotDependOnThreads) {
  Case one(1, 3000, 16, std::vector<int64_t>(6, 1), 0), many = one;
  const PairPlan plan(one.fields, one.pairs);
  SerialFor serial;
  ThreadFor threads(4);
  DotPairs(plan, one.rows, one.dim, one.Parts(), one.dots.data(), serial);
  DotPairs(plan, many.rows, many.dim, many.Parts(), many.dots.data(), threads);
  DotPairsGradient(plan, one.rows, one.dim, one.upstream.data(), one.Parts(), one.Gradients(), serial);
  DotPairsGradient(plan, many.rows, many.dim, many.upstream.data(), many.Parts(), many.Gradients(), threads);
  EXPECT_TRUE(one.dots == many.dots && one.gradients == many.gradients);
}

}  // namespace
}  // namespace tf_booster
