// Dots of all pairs below the diagonal, and their gradient, at every level: ns an example on one thread, beside copies
// of the vectors and of the dots, which nothing can be faster than. Medians and lowest of CPU time; all take turns.
//
//   pair_dots_bench [rows = 2048] [fields = 27] [dim = 16] [rounds = 200]
#include "cc/core/products/pair_dots.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tf_booster {
namespace {

constexpr int64_t kBeside = 16;  // Columns before the dots, as a DLRM has them.

double CpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

void Run(int64_t rows, int64_t fields, int64_t dim, int rounds) {
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < fields; ++i) {
    for (int64_t j = 0; j < i; ++j) pairs.push_back(i * fields + j);
  }
  const PairPlan plan(fields, pairs);
  const int64_t step = kBeside + plan.size();
  std::vector<std::vector<float>> values(fields, std::vector<float>(rows * dim)), gradients = values;
  std::vector<FieldPart<const float>> parts;
  std::vector<FieldPart<float>> gradient_parts;
  for (int64_t f = 0; f < fields; ++f) {
    for (int64_t i = 0; i < rows * dim; ++i) values[f][i] = static_cast<float>((i * 7 + f) % 97) * 0.01f - 0.4f;
    parts.push_back({values[f].data(), 1});
    gradient_parts.push_back({gradients[f].data(), 1});
  }
  std::vector<float> upstream(rows * step, 0.1f), dots(rows * step);
  SerialFor serial;
  std::vector<std::pair<std::string, std::function<void()>>> bodies;
  bodies.emplace_back("copy of the vectors", [&] {
    for (int64_t f = 0; f < fields; ++f) std::memcpy(gradients[f].data(), values[f].data(), rows * dim * sizeof(float));
  });
  bodies.emplace_back("copy of the dots",
                      [&] { std::memcpy(dots.data(), upstream.data(), dots.size() * sizeof(float)); });
  for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level > PairDotsLevel()) continue;
    bodies.emplace_back(std::string("dots, ") + SimdLevelName(level), [&, level] {
      DotPairs(plan, rows, dim, parts, {dots.data() + kBeside, step}, serial, level);
    });
    bodies.emplace_back(std::string("gradient, ") + SimdLevelName(level), [&, level] {
      DotPairsGradient(plan, rows, dim, {upstream.data() + kBeside, step}, parts, gradient_parts, serial, level);
    });
  }
  std::vector<std::vector<double>> ns(bodies.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      const double start = CpuNs();
      bodies[i].second();
      ns[i].push_back((CpuNs() - start) / static_cast<double>(rows));
    }
  }
  std::printf("%ld examples of %ld vectors of %ld, ns an example: median, lowest\n", static_cast<long>(rows),
              static_cast<long>(fields), static_cast<long>(dim));
  for (size_t i = 0; i < bodies.size(); ++i) {
    std::sort(ns[i].begin(), ns[i].end());
    std::printf("%-22s %8.1f %8.1f\n", bodies[i].first.c_str(), ns[i][ns[i].size() / 2], ns[i][0]);
  }
}

}  // namespace
}  // namespace tf_booster

int main(int argc, char** argv) {
  const auto argument = [&](int i, int other) { return argc > i ? std::atoi(argv[i]) : other; };
  tf_booster::Run(argument(1, 2048), argument(2, 27), argument(3, 16), argument(4, 200));
  return 0;
}
