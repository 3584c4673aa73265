#include "cc/core/products/quantized_products.h"

#include <algorithm>
#include <iterator>

#include "cc/core/base/cpu_features.h"
#include "cc/core/products/quantized_levels.h"
#include "cc/core/products/quantized_scratch.h"

namespace tf_booster {
namespace {

constexpr const char* kNames[] = {"scalar", "avx2", "avx512-vnni"};

// A unit of a loop over rows: few enough for a batch of some hundred rows to keep several threads busy.
constexpr int64_t kUnit = 12;

QuantizedLevel Highest() {
  if (!Runs(SimdLevel::kAvx2NoBmi2)) return QuantizedLevel::kScalar;
  const bool vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512vnni");
  return vnni ? QuantizedLevel::kVnni : QuantizedLevel::kAvx2;
}

float Finished(float value, const QuantizedProduct& product, int64_t column) {
  if (product.bias != nullptr) value += product.bias[column];
  return product.relu && value < 0 ? 0 : value;
}

}  // namespace

const char* QuantizedLevelName(QuantizedLevel level) { return kNames[static_cast<int>(level)]; }

QuantizedLevel BestQuantizedLevel() {
  static const QuantizedLevel best = Highest();
  return best;
}

std::vector<QuantizedLevel> RunnableQuantizedLevels() {
  std::vector<QuantizedLevel> levels;
  for (int i = 0; i <= static_cast<int>(BestQuantizedLevel()); ++i) levels.push_back(static_cast<QuantizedLevel>(i));
  return levels;
}

const QuantizedLoops& QuantizedLoopsOf(QuantizedLevel level) {
  if (level == QuantizedLevel::kVnni) return kVnniQuantized;
  return level == QuantizedLevel::kAvx2 ? kAvx2Quantized : kScalarQuantized;
}

void MultiplyQuantized(const QuantizedProduct& product, const QuantizedWeights& weights, ParallelFor& pf,
                       QuantizedLevel level) {
  if (weights.n() == 0) return;
  const int64_t units = (product.m + kUnit - 1) / kUnit;
  // 150 terms a ns are what VNNI makes of int8.
  const int64_t unit_ns = kUnit * (weights.k() * weights.n() / 150 + weights.k() + weights.n() / 2 + 20);
  pf.Run(units, unit_ns, [&](int64_t begin, int64_t end) {
    const int64_t first = kUnit * begin, last = std::min(product.m, kUnit * end);
    RowScratch scratch(product, weights, last - first);
    QuantizedLoopsOf(level).multiply(product, weights, first, last, scratch);
  });
}

void MultiplyFloatRow(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t row) {
  const int64_t n = weights.n();
  const float* const a = product.a + row * weights.k();
  float* const c = product.c + row * n;
  std::fill(c, c + n, 0.0f);
  for (int64_t i = 0; i < weights.k(); ++i) {
    for (int64_t j = 0; j < n; ++j) c[j] += a[i] * weights.at(i, j);
  }
  for (int64_t j = 0; j < n; ++j) c[j] = Finished(c[j], product, j);
}

void MultiplyFloatColumns(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t row) {
  const float* const a = product.a + row * weights.k();
  for (const int64_t j : weights.float_columns()) {
    float sum = 0;
    for (int64_t i = 0; i < weights.k(); ++i) sum += a[i] * weights.at(i, j);
    product.c[row * weights.n() + j] = Finished(sum, product, j);
  }
}

}  // namespace tf_booster
