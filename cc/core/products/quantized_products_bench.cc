// Quantised products at every level, and what comes before them: rates in thousand millions of terms a second, on one
// thread, by CPU time. Medians; all take turns.
//
//   quantized_products_bench [m = 1000] [k = 512] [n = 512] [rounds = 50]
#include "cc/core/products/quantized_products.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tf_booster {
namespace {

double CpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

void Run(int64_t m, int64_t k, int64_t n, int rounds) {
  std::vector<float> a(m * k), b(k * n), bias(n, 0.1f), c(m * n);
  for (int64_t i = 0; i < m * k; ++i) a[i] = static_cast<float>(i * 7 % 97) * 0.01f - 0.4f;
  for (int64_t i = 0; i < k * n; ++i) b[i] = static_cast<float>(i * 5 % 89) * 0.01f - 0.4f;
  SerialFor serial;
  std::vector<std::pair<std::string, std::function<void()>>> bodies;
  for (const QuantizedType type : {QuantizedType::kInt8, QuantizedType::kInt16}) {
    for (const QuantizedLevel level : RunnableQuantizedLevels()) {
      if (level == QuantizedLevel::kScalar && m * k * n > 10000000) continue;
      const std::string name =
          std::string(type == QuantizedType::kInt8 ? "int8" : "int16") + ", " + QuantizedLevelName(level);
      bodies.emplace_back("weights, " + name,
                          [&, type, level] { QuantizedWeights(type, b.data(), k, n, false, serial, level); });
      const auto weights = std::make_shared<QuantizedWeights>(type, b.data(), k, n, false, serial, level);
      bodies.emplace_back("product, " + name, [&, weights, level] {
        MultiplyQuantized({m, a.data(), bias.data(), true, c.data()}, *weights, serial, level);
      });
    }
  }
  std::vector<std::vector<double>> ns(bodies.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      const double start = CpuNs();
      bodies[i].second();
      ns[i].push_back(CpuNs() - start);
    }
  }
  std::printf("[%ld, %ld] x [%ld, %ld]: us, lowest us, terms a ns\n", static_cast<long>(m), static_cast<long>(k),
              static_cast<long>(k), static_cast<long>(n));
  for (size_t i = 0; i < bodies.size(); ++i) {
    std::sort(ns[i].begin(), ns[i].end());
    const double median = ns[i][ns[i].size() / 2];
    const double terms = bodies[i].first[0] == 'p' ? static_cast<double>(m) * k * n : static_cast<double>(k) * n;
    std::printf("%-28s %10.1f %10.1f %8.1f\n", bodies[i].first.c_str(), median / 1e3, ns[i][0] / 1e3, terms / median);
  }
}

}  // namespace
}  // namespace tf_booster

int main(int argc, char** argv) {
  const auto argument = [&](int i, int other) { return argc > i ? std::atoi(argv[i]) : other; };
  tf_booster::Run(argument(1, 1000), argument(2, 512), argument(3, 512), argument(4, 50));
  return 0;
}
