#include "cc/core/normalization/batch_norm.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

constexpr float kGuard = -12345.0f;
constexpr float kEpsilon = 1e-3f;
const double kUlp = std::ldexp(1.0, -24);  // Half of the distance between 1 and the next float.

std::vector<float> Numbers(int64_t size, uint32_t seed, float mean = 0, float deviation = 1) {
  std::vector<float> values(size);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = mean + deviation * (static_cast<float>(seed >> 8) / (1 << 23) - 1.0f);
  }
  return values;
}

struct Case {
  int64_t rows, units;
  bool scaled = true, shifted = true;
  float mean = 0.5f, deviation = 2;
};

// What both functions write, each with a guard behind it.
struct Results {
  explicit Results(const Case& c)
      : y(c.rows * c.units + 1, kGuard),
        dx(y),
        mean(c.units + 1, kGuard),
        variance(mean),
        dgamma(mean),
        dbeta(mean),
        scratch(BatchNormScratch(c.rows, c.units) + 1, kGuard) {}
  std::vector<float> y, dx, mean, variance, dgamma, dbeta, scratch;

  bool Guarded() const {
    for (const auto* v : {&y, &dx, &mean, &variance, &dgamma, &dbeta, &scratch}) {
      if (v->back() != kGuard) return false;
    }
    return true;
  }
};

struct Given {
  explicit Given(const Case& c)
      : x(Numbers(c.rows * c.units, 1, c.mean, c.deviation)),
        dy(Numbers(c.rows * c.units, 2, 0.1f)),
        gamma(Numbers(c.units, 3, 1.5f)),
        beta(Numbers(c.units, 4)) {}
  std::vector<float> x, dy, gamma, beta;
};

Results Run(const Case& c, const Given& given, int threads) {
  Results to(c);
  const float* const gamma = c.scaled ? given.gamma.data() : nullptr;
  ThreadFor pf(threads);
  BatchNorm({given.x.data(), c.rows, c.units, gamma, c.shifted ? given.beta.data() : nullptr, kEpsilon},
            {to.y.data(), to.mean.data(), to.variance.data()}, to.scratch.data(), pf);
  BatchNormGrad({given.dy.data(), given.x.data(), c.rows, c.units, to.mean.data(), to.variance.data(), gamma, kEpsilon},
                {to.dx.data(), to.dgamma.data(), to.dbeta.data()}, to.scratch.data(), pf);
  EXPECT_TRUE(to.Guarded());
  return to;
}

void ExpectNear(double got, double want, double bound) {
  EXPECT_TRUE(std::abs(got - want) <= bound);
  if (!(std::abs(got - want) <= bound)) std::cerr << got << " against " << want << ", bound " << bound << "\n";
}

// Against double precision. A sum of n addends, in the order that batch_norm_formulas.h has, is within `steps` halves
// of a last bit of the sum of their sizes.
void Check(const Case& c, int threads = 1) {
  const Given given(c);
  const Results got = Run(c, given, threads);
  const double n = static_cast<double>(c.rows);
  const double steps = 8 + n / 8 / std::min(64.0, std::max(1.0, n / 32)) + std::min(64.0, n / 32);
  for (int64_t u = 0; u < c.units; ++u) {
    double sum = 0, size = 0;
    for (int64_t r = 0; r < c.rows; ++r) sum += given.x[r * c.units + u], size += std::abs(given.x[r * c.units + u]);
    ExpectNear(got.mean[u], sum / n, steps * kUlp * size / n);
    // From here on of the mean as it came out, which is what TensorFlow does, too.
    const double mean = got.mean[u];
    double squares = 0, dbeta = 0, dbeta_size = 0, product = 0, product_size = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      const double x = given.x[r * c.units + u] - mean, dy = given.dy[r * c.units + u];
      squares += x * x;
      dbeta += dy;
      dbeta_size += std::abs(dy);
      product += x * dy;
      product_size += std::abs(x * dy);
    }
    const double variance = squares / n;
    ExpectNear(got.variance[u], variance, (steps + 4) * kUlp * variance);
    const double inverse = 1 / std::sqrt(variance + kEpsilon), gamma = c.scaled ? given.gamma[u] : 1;
    const double beta = c.shifted ? given.beta[u] : 0, factor = inverse * gamma;
    ExpectNear(got.dbeta[u], dbeta, steps * kUlp * dbeta_size);
    ExpectNear(got.dgamma[u], product * inverse, 2 * (steps + 8) * kUlp * product_size * inverse);
    const double slope = -product * gamma * inverse * inverse * inverse / n, shift = -dbeta * factor / n;
    const double slope_size = product_size * std::abs(gamma) * inverse * inverse * inverse / n;
    for (int64_t r = 0; r < c.rows; ++r) {
      const double x = given.x[r * c.units + u], dy = given.dy[r * c.units + u];
      const double y = (x - mean) * factor + beta;
      // x * factor and mean * factor, as TensorFlow has them, are as large as x.
      const double y_size = (std::abs(x) + std::abs(mean)) * std::abs(factor) + std::abs(beta);
      ExpectNear(got.y[r * c.units + u], y, (steps + 10) * kUlp * y_size);
      const double dx_size = (std::abs(dy) + dbeta_size / n) * std::abs(factor) + slope_size * std::abs(x - mean);
      ExpectNear(got.dx[r * c.units + u], dy * factor + slope * (x - mean) + shift, 4 * (steps + 8) * kUlp * dx_size);
    }
  }
}

TEST(IsWithinRoundingOfDoublePrecision) {
  for (const int64_t rows : {1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 1000}) {
    for (const int64_t units : {1, 3, 7, 16, 33, 256, 1030}) {
      Check({rows, units});
      if (rows != 1000) Check({rows, units, false, true});
      if (rows != 1000) Check({rows, units, true, false});
    }
  }
  Check({20011, 5, false, false});
  Check({5000, 600}, 3);
}

TEST(LargeMeansLeaveSmallVariances) {
  // E[x^2] - E[x]^2 would have no correct digit here.
  for (const int64_t rows : {3, 100, 1000, 10000}) Check({rows, 9, true, true, 3000.0f, 0.01f});
}

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(BitsDoNotDependOnThreads) {
  for (const int64_t rows : {1, 33, 1000, 4097}) {
    const Case c{rows, 70};
    const Given given(c);
    const Results one = Run(c, given, 1);
    for (const int threads : {2, 3, 8}) {
      const Results many = Run(c, given, threads);
      EXPECT_TRUE(Same(many.y, one.y) && Same(many.mean, one.mean) && Same(many.variance, one.variance));
      EXPECT_TRUE(Same(many.dx, one.dx) && Same(many.dgamma, one.dgamma) && Same(many.dbeta, one.dbeta));
    }
  }
}

TEST(WithoutRowsMomentsAreNaN) {
  const Case c{0, 5};
  const Results got = Run(c, Given(c), 2);
  for (int64_t u = 0; u < c.units; ++u) {
    EXPECT_TRUE(std::isnan(got.mean[u]) && std::isnan(got.variance[u]) && std::isnan(got.dgamma[u]));
    EXPECT_EQ(got.dbeta[u], 0.0f);
  }
}

TEST(WhatIsNotFiniteStaysInItsColumn) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Case c{50, 11};
    Given given(c);
    given.x[13 * c.units + 4] = odd;
    given.dy[17 * c.units + 6] = odd;
    const Results got = Run(c, given, 1);
    for (int64_t u = 0; u < c.units; ++u) {
      EXPECT_EQ(std::isfinite(got.mean[u]), u != 4);
      EXPECT_EQ(std::isnan(got.variance[u]), u == 4);
      EXPECT_EQ(std::isfinite(got.dgamma[u]), u != 4 && u != 6);
      EXPECT_EQ(std::isfinite(got.dbeta[u]), u != 6);
      for (int64_t r = 0; r < c.rows; ++r) {
        EXPECT_EQ(std::isnan(got.y[r * c.units + u]), u == 4);
        EXPECT_EQ(std::isfinite(got.dx[r * c.units + u]), u != 4 && u != 6);
      }
    }
  }
}

}  // namespace
}  // namespace tf_booster
