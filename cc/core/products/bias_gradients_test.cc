#include "cc/core/products/bias_gradients.h"

#include <cmath>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

struct Case {
  BiasGradient job;
  std::vector<float> upstream, relu, gradient, bias;

  Case(int64_t rows, int64_t columns, bool with_relu)
      : upstream(rows * columns), relu(rows * columns), gradient(rows * columns, -7.0f), bias(columns, -7.0f) {
    std::mt19937 random(static_cast<unsigned>(rows * 100 + columns));
    std::normal_distribution<float> normal;
    for (float& value : upstream) value = normal(random);
    for (float& value : relu) value = std::max(0.0f, normal(random));
    job = {rows, columns, upstream.data(), with_relu ? relu.data() : nullptr, gradient.data(), bias.data()};
  }
};

TEST(GradientsOfAllShapes) {
  std::vector<Case> cases;
  for (const int64_t rows : {0, 1, 5, 511, 512, 1300}) {
    for (const int64_t columns : {0, 1, 7, 8, 9, 16, 17, 31, 40}) {
      for (const bool with_relu : {false, true}) cases.emplace_back(rows, columns, with_relu);
    }
  }
  std::vector<BiasGradient> jobs;
  for (const Case& c : cases) jobs.push_back(c.job);
  ThreadFor threads(3);
  SumBiasGradients(jobs, threads);
  for (const Case& c : cases) {
    for (int64_t j = 0; j < c.job.columns; ++j) {
      double sum = 0, size = 0;
      for (int64_t r = 0; r < c.job.rows; ++r) {
        const int64_t place = r * c.job.columns + j;
        const float want = c.job.relu == nullptr || c.relu[place] > 0 ? c.upstream[place] : 0.0f;
        if (c.job.relu != nullptr) EXPECT_EQ(c.gradient[place], want);
        sum += want;
        size += std::abs(want);
      }
      EXPECT_TRUE(std::abs(c.bias[j] - sum) <= 1e-6 * size);
    }
    if (c.job.relu == nullptr) {
      for (const float value : c.gradient) EXPECT_EQ(value, -7.0f);
    }
  }
}

TEST(ColumnsOfWiderMatrices) {
  constexpr int64_t kRows = 700, kWide = 60;
  std::vector<Case> wide;
  wide.emplace_back(kRows, kWide, true);
  for (const int64_t columns : {1, 7, 8, 17, 40}) {
    for (const bool with_relu : {false, true}) {
      Case packed(kRows, columns, with_relu);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t j = 0; j < columns; ++j) {
          packed.upstream[r * columns + j] = wide[0].upstream[r * kWide + 3 + j];
          packed.relu[r * columns + j] = wide[0].relu[r * kWide + 20 + j];
        }
      }
      Case where_it_lies(kRows, columns, with_relu);
      BiasGradient job = where_it_lies.job;
      job.upstream = wide[0].upstream.data() + 3;
      job.upstream_step = kWide;
      if (with_relu) job.relu = wide[0].relu.data() + 20;
      job.relu_step = kWide;
      SerialFor serial;
      SumBiasGradients({packed.job}, serial);
      SumBiasGradients({job}, serial);
      EXPECT_TRUE(where_it_lies.bias == packed.bias);
      EXPECT_TRUE(where_it_lies.gradient == packed.gradient);
    }
  }
}

}  // namespace
}  // namespace tf_booster
