#include "cc/core/products/small_products.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

struct Case {
  Product product;
  std::vector<float> a, b, bias, c;

  Case(int seed, int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed, bool with_bias, bool relu)
      : a(m * k), b(k * n), bias(n), c(m * n, -7.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* values : {&a, &b, &bias}) {
      for (float& value : *values) value = normal(random);
    }
    product = {m,    n,       k, a.data(), b.data(), a_transposed, b_transposed, with_bias ? bias.data() : nullptr,
               relu, c.data()};
  }

  double Exact(int64_t i, int64_t j, double* size) const {
    const Product& p = product;
    double sum = p.bias == nullptr ? 0 : p.bias[j];
    *size = std::abs(sum);
    for (int64_t k = 0; k < p.k; ++k) {
      const double term = static_cast<double>(p.a_transposed ? a[k * p.m + i] : a[i * p.k + k]) *
                          (p.b_transposed ? b[j * p.k + k] : b[k * p.n + j]);
      sum += term;
      *size += std::abs(term);
    }
    return p.relu && sum < 0 ? 0 : sum;
  }

  void Check() const {
    for (int64_t i = 0; i < product.m; ++i) {
      for (int64_t j = 0; j < product.n; ++j) {
        double size = 0;
        const double want = Exact(i, j, &size);
        EXPECT_TRUE(std::abs(c[i * product.n + j] - want) <= 1e-6 * size + 1e-30);
      }
    }
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  int seed = 0;
  for (const int64_t m : {0, 1, 3, 8, 21}) {
    for (const int64_t n : {0, 1, 7, 8, 9, 15, 16, 17, 24, 35}) {
      for (const int64_t k : {0, 1, 13, 511, 512, 1100}) {
        ++seed;
        cases.emplace_back(seed, m, n, k, seed % 2 == 0, seed % 3 == 0, seed % 5 < 3, seed % 7 < 3);
      }
    }
  }
  return cases;
}

std::vector<Product> Products(const std::vector<Case>& cases) {
  std::vector<Product> products;
  for (const Case& c : cases) products.push_back(c.product);
  return products;
}

TEST(ProductsOfAllShapes) {
  std::vector<Case> cases = Cases();
  ThreadFor threads(3);
  Multiply(Products(cases), threads);
  for (const Case& c : cases) c.Check();
}

TEST(ProductsWithoutFma) {
  std::vector<Case> cases = Cases();
  MultiplyPlainly(Products(cases));
  for (const Case& c : cases) c.Check();
}

TEST(BitsDoNotDependOnThreadsOrOnTheOthers) {
  std::vector<Case> together = Cases(), alone = Cases();
  ThreadFor threads(4);
  Multiply(Products(together), threads);
  SerialFor serial;
  for (const Case& c : alone) Multiply({c.product}, serial);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(alone[i].c == together[i].c);
}

TEST(ProductsSideBySide) {
  std::vector<Case> apart, joined;
  for (const int64_t n : {8, 1, 0, 17, 16, 3}) {
    apart.emplace_back(static_cast<int>(n), 21, n, 6, false, false, true, true);
    joined.push_back(apart.back());
  }
  ThreadFor threads(3);
  Multiply(Products(apart), threads);
  for (const bool plain : {false, true}) {
    std::vector<float> wide(21 * 45 + 1, -7.0f);
    std::vector<Product> products = Products(joined);
    int64_t first = 0;
    for (Product& p : products) {
      p.c = wide.data() + first;
      p.c_step = 45;
      first += p.n;
    }
    std::vector<int> seen(21);
    const auto see = [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) ++seen[r];
    };
    plain ? MultiplyPlainly(products) : MultiplyByRows(products, threads, see);
    EXPECT_TRUE(plain || seen == std::vector<int>(21, 1));
    EXPECT_EQ(wide.back(), -7.0f);
    for (size_t i = 0; i < apart.size(); ++i) {
      const Product& p = products[i];
      for (int64_t r = 0; r < p.m; ++r) {
        for (int64_t j = 0; j < p.n; ++j) {
          EXPECT_TRUE(std::abs(p.c[r * 45 + j] - apart[i].c[r * p.n + j]) <= (plain ? 1e-5 : 0));
        }
      }
    }
  }
}

TEST(NanGoesThroughReluAndStaysInItsRow) {
  Case with_nan(1, 9, 9, 5, false, false, true, true);
  with_nan.a[2 * 5 + 1] = std::numeric_limits<float>::quiet_NaN();
  SerialFor serial;
  for (const bool plain : {false, true}) {
    plain ? MultiplyPlainly({with_nan.product}) : Multiply({with_nan.product}, serial);
    for (int64_t i = 0; i < 9; ++i) {
      for (int64_t j = 0; j < 9; ++j) EXPECT_EQ(std::isnan(with_nan.c[i * 9 + j]), i == 2);
    }
  }
}

}  // namespace
}  // namespace tf_booster
