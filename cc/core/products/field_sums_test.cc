#include "cc/core/products/field_sums.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

constexpr float kGuard = -12345.0f;

// Numbers whose sums depend on the order.
std::vector<float> Numbers(int64_t size, uint32_t seed) {
  std::vector<float> values(size);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = (static_cast<float>(seed >> 8) / (1 << 23) - 1.0f) * static_cast<float>(1 << (seed % 7));
  }
  return values;
}

std::vector<float> Guarded(int64_t size) { return std::vector<float>(size + 1, kGuard); }

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Of the values of all fields. `interleaved`: as Eigen sums the lanes of a vector.
float SumInOrder(const std::vector<float>& values, bool interleaved) {
  const size_t unrolled = interleaved ? values.size() / 4 * 4 : 0;
  float part[4] = {0, 0, 0, 0};
  for (size_t f = 0; f < unrolled; ++f) part[f % 4] += values[f];
  float sum = part[0];
  for (int k = 1; k < 4; ++k) sum += part[k];
  for (size_t f = unrolled; f < values.size(); ++f) sum += values[f];
  return sum;
}

struct Case {
  int64_t rows, fields, width, first, count;
};

void CheckSums(const Case& c, int64_t before, int64_t behind, int threads) {
  const std::vector<float> x = Numbers(c.rows * c.fields * c.width, 1);
  const std::vector<float> left = Numbers(c.rows * before, 2), right = Numbers(c.rows * behind, 3);
  const int64_t join_width = before + c.fields * c.count + behind;
  std::vector<float> sums = Guarded(c.rows * c.count), squares = sums, joined = Guarded(c.rows * join_width);
  std::vector<float> rest = Guarded(c.rows * c.fields * c.first), all = Guarded(x.size());

  std::vector<float> want_sums, want_squares, want_joined, want_rest;
  for (int64_t row = 0; row < c.rows; ++row) {
    const float* matrix = x.data() + row * c.fields * c.width;
    want_joined.insert(want_joined.end(), left.data() + row * before, left.data() + (row + 1) * before);
    for (int64_t f = 0; f < c.fields; ++f) {
      const float* field = matrix + f * c.width;
      want_joined.insert(want_joined.end(), field + c.first, field + c.first + c.count);
      want_rest.insert(want_rest.end(), field, field + c.first);
    }
    want_joined.insert(want_joined.end(), right.data() + row * behind, right.data() + (row + 1) * behind);
    for (int64_t column = 0; column < c.count; ++column) {
      std::vector<float> values, squared;
      for (int64_t f = 0; f < c.fields; ++f) {
        values.push_back(matrix[f * c.width + c.first + column]);
        squared.push_back(values.back() * values.back());
      }
      // The place in the output is cut into vectors of 8; those that reach into the next row, or over the end, are not
      // summed as vectors.
      const int64_t vector = (row * c.count + column) / 8 * 8;
      const bool whole = vector + 8 <= c.rows * c.count && vector % c.count + 8 <= c.count;
      want_sums.push_back(SumInOrder(values, whole && c.fields >= 16));
      want_squares.push_back(SumInOrder(squared, whole && c.fields >= 16));
    }
  }

  FieldSums out;
  out.columns = {c.first, c.count};
  out.sums = sums.data();
  out.square_sums = squares.data();
  out.joined = joined.data();
  out.join_width = join_width;
  out.before = {{left.data(), before}};
  out.behind = {{right.data(), behind}};
  ThreadFor pf(threads);
  SumFields({x.data(), c.rows, c.fields, c.width}, out, {{{0, c.first}, rest.data()}, {{0, c.width}, all.data()}}, pf);
  for (auto* want : {&want_sums, &want_squares, &want_joined, &want_rest}) want->push_back(kGuard);
  EXPECT_TRUE(Same(sums, want_sums));
  EXPECT_TRUE(Same(squares, want_squares));
  EXPECT_TRUE(Same(joined, want_joined));
  EXPECT_TRUE(Same(rest, want_rest));
  std::vector<float> want_all = x;
  want_all.push_back(kGuard);
  EXPECT_TRUE(Same(all, want_all));
}

TEST(SumsInEigensOrder) {
  for (const int64_t fields : {1, 2, 5, 15, 16, 17, 26, 39}) {
    for (const int64_t count : {1, 2, 4, 7, 8, 9, 10, 12, 16, 17, 24, 33}) {
      for (const int64_t rows : {0, 1, 2, 13}) CheckSums({rows, fields, count + 3, 2, count}, 0, 3, 1);
    }
  }
}

TEST(SumsByThreads) {
  CheckSums({3001, 26, 17, 1, 16}, 2, 13, 3);
  CheckSums({3001, 20, 10, 0, 10}, 1, 0, 4);
}

TEST(WhatNobodyAsksForIsNotWritten) {
  const std::vector<float> x = Numbers(5 * 3 * 8, 1);
  FieldSums out;
  out.columns = {0, 8};
  SerialFor pf;
  SumFields({x.data(), 5, 3, 8}, out, {}, pf);  // Under sanitizers it would be found out.
  std::vector<float> squares(5 * 8);
  out.square_sums = squares.data();
  SumFields({x.data(), 5, 3, 8}, out, {}, pf);
  EXPECT_EQ(squares[0], x[0] * x[0] + x[8] * x[8] + x[16] * x[16]);
}

void CheckGradient(const Case& c, int threads) {
  const int64_t behind = c.width - c.first - c.count;
  const std::vector<float> x = Numbers(c.rows * c.fields * c.width, 4);
  const std::vector<float> tower = Numbers(c.rows * (c.fields * c.count + 5), 5), sums = Numbers(c.rows * c.count, 6);
  const std::vector<float> squares = Numbers(c.rows * c.count, 7), one_row = Numbers(c.first, 8);
  const std::vector<float> rest = Numbers(c.rows * c.fields * behind, 9);
  std::vector<float> gradient = Guarded(x.size()), want;
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t f = 0; f < c.fields; ++f) {
      want.insert(want.end(), one_row.begin(), one_row.end());
      for (int64_t column = 0; column < c.count; ++column) {
        const float value = x[(row * c.fields + f) * c.width + c.first + column];
        const float square = squares[row * c.count + column], product = sums[row * c.count + column];
        float sum = square * (value * 2.0f) + tower[row * (c.fields * c.count + 5) + 2 + f * c.count + column];
        sum += product * value;
        sum += product;
        sum += product * value;
        want.push_back(sum);
      }
      for (int64_t i = 0; i < behind; ++i) want.push_back(rest[(row * c.fields + f) * behind + i]);
    }
  }
  const FieldTerm product = {FieldTerm::kProductSum, sums.data(), c.count};
  const FieldRange vectors = {c.count,
                              {{FieldTerm::kSquareSum, squares.data(), c.count},
                               {FieldTerm::kWhole, tower.data() + 2, c.fields * c.count + 5},
                               product,
                               {FieldTerm::kSum, sums.data(), c.count},
                               product}};
  ThreadFor pf(threads);
  SumFieldsGradient({x.data(), c.rows, c.fields, c.width},
                    {{c.first, {{FieldTerm::kSum, one_row.data(), 0}}},
                     vectors,
                     {behind, {{FieldTerm::kWhole, rest.data(), c.fields * behind}}}},
                    gradient.data(), pf);
  want.push_back(kGuard);
  EXPECT_TRUE(Same(gradient, want));
}

TEST(GradientsAreAddedUpInTheirOrder) {
  for (const int64_t fields : {1, 3, 26}) {
    for (const int64_t count : {1, 4, 7, 8, 10, 16, 17, 32, 33, 64, 128}) {
      for (const int64_t rows : {0, 1, 11}) {
        CheckGradient({rows, fields, count, 0, count}, 1);
        CheckGradient({rows, fields, count + 3, 1, count}, 1);
      }
    }
  }
  CheckGradient({3001, 26, 17, 1, 16}, 3);
}

}  // namespace
}  // namespace tf_booster
