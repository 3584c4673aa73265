#include "cc/core/products/bias_gradients.h"

#include <algorithm>

#include "cc/core/pooling/job_ranges.h"

namespace tf_booster {
namespace {

constexpr int64_t kBlock = 512;   // Rows.
constexpr int64_t kColumns = 16;  // A unit of work.

// Eight columns, at any address.
typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(32)));

inline Lanes& At(float* p) { return *reinterpret_cast<Lanes*>(p); }
inline const Lanes& At(const float* p) { return *reinterpret_cast<const Lanes*>(p); }

inline float Passed(float upstream, float relu) { return upstream * (relu > 0 ? 1.0f : 0.0f); }
inline Lanes Passed(Lanes upstream, Lanes relu) {
  const Lanes ones = Lanes{} + 1.0f;
  return upstream * reinterpret_cast<Lanes>(reinterpret_cast<Bits>(ones) & (relu > Lanes{}));
}

// The sum of one column, or of eight. An addition takes four cycles, so four rows are on their way.
template <class T, class Row>
T SumRows(int64_t rows, Row row) {
  T total{};
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = std::min(rows, start + kBlock);
    T sum[4] = {};
    int64_t r = start;
    for (; r + 4 <= end; r += 4) {
      for (int i = 0; i < 4; ++i) sum[i] += row(r + i);
    }
    for (; r < end; ++r) sum[0] += row(r);
    total += (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  return total;
}

inline void SumColumn(const BiasGradient& g, int64_t j) {
  const float *const upstream = g.upstream + j, *const relu = g.relu + j;
  float* const gradient = g.gradient + j;
  const int64_t n = g.columns;
  g.bias[j] =
      g.relu == nullptr
          ? SumRows<float>(g.rows, [=](int64_t r) { return upstream[r * n]; })
          : SumRows<float>(g.rows, [=](int64_t r) { return gradient[r * n] = Passed(upstream[r * n], relu[r * n]); });
}

inline void SumEight(const BiasGradient& g, int64_t j) {
  const float *const upstream = g.upstream + j, *const relu = g.relu + j;
  float* const gradient = g.gradient + j;
  const int64_t n = g.columns;
  At(g.bias + j) = g.relu == nullptr ? SumRows<Lanes>(g.rows, [=](int64_t r) { return At(upstream + r * n); })
                                     : SumRows<Lanes>(g.rows, [=](int64_t r) {
                                         const Lanes passed = Passed(At(upstream + r * n), At(relu + r * n));
                                         At(gradient + r * n) = passed;
                                         return passed;
                                       });
}

void SumUnit(const BiasGradient& g, int64_t unit) {
  const int64_t end = std::min(g.columns, (unit + 1) * kColumns);
  int64_t j = unit * kColumns;
  for (; j + 8 <= end; j += 8) SumEight(g, j);
  for (; j < end; ++j) SumColumn(g, j);
}

}  // namespace

void SumBiasGradients(const std::vector<BiasGradient>& gradients, ParallelFor& pf) {
  std::vector<int64_t> units;
  int64_t total_ns = 0;
  for (const BiasGradient& g : gradients) {
    units.push_back((g.columns + kColumns - 1) / kColumns);
    total_ns += 50 + g.rows * g.columns / (g.relu == nullptr ? 6 : 3);
  }
  JobRanges(units, total_ns).Run(pf, [&](size_t j, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) SumUnit(gradients[j], unit);
  });
}

}  // namespace tf_booster
