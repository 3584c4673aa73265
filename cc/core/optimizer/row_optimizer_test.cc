// Each formula against itself in double precision, written out from the papers' equations, on rows of several widths.
#include "cc/core/optimizer/row_optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

using Row = std::vector<double>;  // [value, slots…] of one column.
using Reference = std::function<void(double grad, Row& row)>;

// 4 ulp in float of the larger of old value, update and 0.25: all columns are near 1, and where two of them nearly
// cancel the roundings before that stay. Against TensorFlow's own kernels, tests/optimizer_test.py is strict.
double Tolerance(double before, double after) {
  const float scale = static_cast<float>(std::max({std::abs(before), std::abs(after - before), 0.25}));
  return 4.0 * (std::nextafter(scale, std::numeric_limits<float>::infinity()) - scale);
}

// Slot s starts between lows[s] and lows[s] + 1. `slack`: how many times the tolerance.
void Check(const RowOptimizer& optimizer, Reference reference, const std::vector<double>& lows, double slack = 1.0) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> signed_value(-1.0f, 1.0f), slot_value(0.0f, 1.0f);
  const int slots = optimizer.num_slots();
  for (const int64_t dim : {1, 3, 8, 16, 200}) {
    constexpr int64_t kRows = 20;
    std::vector<std::vector<float>> rows(kRows, std::vector<float>((1 + slots) * dim + 1, 42.0f)), grads = rows;
    std::vector<float*> row_pointers;
    std::vector<const float*> grad_pointers;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t j = 0; j < dim; ++j) {
        rows[r][j] = signed_value(random);
        grads[r][j] = signed_value(random);
        for (int s = 1; s <= slots; ++s) rows[r][s * dim + j] = static_cast<float>(lows[s - 1]) + slot_value(random);
      }
      row_pointers.push_back(rows[r].data());
      grad_pointers.push_back(grads[r].data());
    }
    const auto before = rows;
    optimizer.ApplyRows({row_pointers.data(), grad_pointers.data(), kRows}, dim);
    for (int64_t r = 0; r < kRows; ++r) {
      EXPECT_EQ(rows[r].back(), 42.0f);  // Nothing past the row.
      for (int64_t j = 0; j < dim; ++j) {
        Row expected;
        for (int s = 0; s <= slots; ++s) expected.push_back(before[r][s * dim + j]);
        reference(grads[r][j], expected);
        for (int s = 0; s <= slots; ++s) {
          const double old = before[r][s * dim + j], got = rows[r][s * dim + j];
          EXPECT_TRUE(std::abs(got - expected[s]) <= slack * Tolerance(old, expected[s]));
        }
      }
    }
  }
}

// Options are floats: a double 0.9 would differ from what the formula sees.
constexpr double kLr = 0.1f, kMomentum = 0.9f, kRho = 0.95f, kEpsilon = 1e-3f;

TEST(GradientDescentMatchesReference) {
  Check(*MakeRowOptimizer(GradientDescentOptions{0.1f}), [](double g, Row& r) { r[0] -= kLr * g; }, {});
}

TEST(MomentumMatchesReference) {
  Check(*MakeRowOptimizer(MomentumOptions{0.1f, 0.9f, false}),
        [](double g, Row& r) {
          r[1] = kMomentum * r[1] + g;
          r[0] -= kLr * r[1];
        },
        {-0.5});
  Check(*MakeRowOptimizer(MomentumOptions{0.1f, 0.9f, true}),
        [](double g, Row& r) {
          r[1] = kMomentum * r[1] + g;
          r[0] -= kLr * (g + kMomentum * r[1]);
        },
        {-0.5});
}

TEST(KerasMomentumMatchesReference) {
  Check(*MakeRowOptimizer(KerasMomentumOptions{0.1f, 0.9f, false}),
        [](double g, Row& r) {
          r[1] = kMomentum * r[1] - kLr * g;
          r[0] += r[1];
        },
        {-0.5});
  Check(*MakeRowOptimizer(KerasMomentumOptions{0.1f, 0.9f, true}),
        [](double g, Row& r) {
          r[1] = kMomentum * r[1] - kLr * g;
          r[0] += kMomentum * r[1] - kLr * g;
        },
        {-0.5});
}

TEST(AdagradMatchesReference) {
  for (const bool update_slots : {true, false}) {
    Check(*MakeRowOptimizer(AdagradOptions{0.1f, update_slots}),
          [=](double g, Row& r) {
            if (update_slots) r[1] += g * g;
            r[0] -= kLr * g / std::sqrt(r[1]);
          },
          {0.1});
    Check(*MakeRowOptimizer(AdagradV2Options{0.1f, 1e-3f, update_slots}),
          [=](double g, Row& r) {
            if (update_slots) r[1] += g * g;
            r[0] -= kLr * g / (std::sqrt(r[1]) + kEpsilon);
          },
          {0.1});
  }
}

TEST(AdamMatchesReference) {
  const double beta1 = 0.9f, beta2 = 0.99f, power1 = 0.5f, power2 = 0.75f;
  const double alpha = kLr * std::sqrt(1 - power2) / (1 - power1);
  for (const bool nesterov : {false, true}) {
    Check(*MakeRowOptimizer(AdamOptions{0.5f, 0.75f, 0.1f, 0.9f, 0.99f, 1e-3f, nesterov}),
          [=](double g, Row& r) {
            r[1] += (g - r[1]) * (1 - beta1);
            r[2] += (g * g - r[2]) * (1 - beta2);
            r[0] -= alpha * (nesterov ? beta1 * r[1] + (1 - beta1) * g : r[1]) / (std::sqrt(r[2]) + kEpsilon);
          },
          {-0.5, 0.01});
  }
}

TEST(FollowingRowsStayAsTheyAre) {
  const auto optimizer = MakeRowOptimizer(GradientDescentOptions{1.0f});
  constexpr int64_t kRows = 50, kDim = 17;
  for (const int64_t size : {0, 3, 40, 50}) {
    for (const bool first : {false, true}) {
      std::vector<float> values(kRows * kDim, 3.0f), grad(kDim, 2.0f);
      std::vector<float*> rows;
      for (int64_t i = 0; i < kRows; ++i) rows.push_back(values.data() + i * kDim);
      const std::vector<const float*> grads(kRows, grad.data());
      optimizer->ApplyRows({rows.data(), grads.data(), size, kRows - size, first}, kDim);
      for (int64_t i = 0; i < kRows * kDim; ++i) EXPECT_EQ(values[i], i < size * kDim ? 1.0f : 3.0f);
    }
  }
}

TEST(AdamWithoutPowersTakesTheLearningRateAsItIs) {
  const auto corrected = MakeRowOptimizer(AdamOptions{0.0f, 0.0f, 0.1f, 0.9f, 0.99f, 1e-3f, false});
  float row[3] = {1.0f, 0.0f, 0.0f}, grad = 1.0f;
  float* rows = row;
  const float* grads = &grad;
  corrected->ApplyRows({&rows, &grads, 1}, 1);
  EXPECT_TRUE(std::abs(row[0] - (1.0 - 0.1 * 0.1 / (0.1 + 1e-3))) < 1e-6);
}

TEST(FtrlMatchesReference) {
  for (const float power : {-0.5f, -0.7f}) {
    for (const bool by_lr : {false, true}) {
      const FtrlOptions options{0.1f, 0.01f, 0.02f, 0.03f, power, by_lr};
      Check(
          *MakeRowOptimizer(options),
          [=](double g, Row& r) {
            const double l1 = 0.01f, l2 = 0.02f, shrinkage = 0.03f, scale = by_lr ? kLr : 1.0;
            const double accumulator = r[1] + g * g;
            const double sigma = (std::pow(accumulator, -power) - std::pow(r[1], -power)) / kLr;
            r[2] += scale * (g + 2 * shrinkage * r[0] - sigma * r[0]);
            const double linear = r[2] / scale;
            r[0] = (std::clamp(linear, -l1, l1) - linear) / (std::pow(accumulator, -power) / kLr + 2 * l2);
            r[1] = accumulator;
          },
          {0.1, -0.5}, 16.0);  // The difference of two powers near 1 keeps an error of 2^-24, and divides it by lr.
    }
  }
}

TEST(FtrlKeepsSmallWeightsAtZero) {
  const auto optimizer = MakeRowOptimizer(FtrlOptions{0.1f, 1.0f, 0.0f, 0.0f, -0.5f, false});
  float row[3] = {0.0f, 0.1f, 0.0f}, grad = 0.5f;
  float* rows = row;
  const float* grads = &grad;
  optimizer->ApplyRows({&rows, &grads, 1}, 1);
  EXPECT_EQ(row[0], 0.0f);
  EXPECT_EQ(row[2], 0.5f);
}

TEST(RMSPropMatchesReference) {
  for (const bool outside : {false, true}) {
    Check(*MakeRowOptimizer(RMSPropOptions{0.1f, 0.95f, 0.9f, 1e-3f, outside}),
          [=](double g, Row& r) {
            r[1] = kRho * r[1] + (1 - kRho) * g * g;
            r[2] = kMomentum * r[2] + kLr * g / (outside ? std::sqrt(r[1]) + kEpsilon : std::sqrt(r[1] + kEpsilon));
            r[0] -= r[2];
          },
          {0.1, -0.5});
    Check(*MakeRowOptimizer(CenteredRMSPropOptions{0.1f, 0.95f, 0.9f, 1e-3f, outside}),
          [=](double g, Row& r) {
            r[1] = kRho * r[1] + (1 - kRho) * g;
            r[2] = kRho * r[2] + (1 - kRho) * g * g;
            const double variance = r[2] - r[1] * r[1];
            r[3] = kMomentum * r[3] +
                   kLr * g / (outside ? std::sqrt(variance) + kEpsilon : std::sqrt(variance + kEpsilon));
            r[0] -= r[3];
          },
          {-0.5, 1.0, -0.5});  // ms above mg², as ever.
  }
}

TEST(OptimizersNameThemselvesAsTheirOps) {
  EXPECT_EQ(std::string(MakeRowOptimizer(GradientDescentOptions{})->name()), "GradientDescent");
  EXPECT_EQ(std::string(MakeRowOptimizer(FtrlOptions{})->name()), "Ftrl");
  EXPECT_EQ(MakeRowOptimizer(GradientDescentOptions{})->num_slots(), 0);
  EXPECT_EQ(MakeRowOptimizer(AdamOptions{})->num_slots(), 2);
  EXPECT_EQ(MakeRowOptimizer(CenteredRMSPropOptions{})->num_slots(), 3);
}

}  // namespace
}  // namespace tf_booster
