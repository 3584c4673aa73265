#include "cc/core/products/bias_gradients.h"

#include <algorithm>

namespace tf_booster {
namespace {

constexpr int64_t kBlock = 512;  // Rows.

// Eight columns, and such at any address.
typedef float Eight __attribute__((vector_size(32)));
typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(32)));

inline Lanes& At(float* p) { return *reinterpret_cast<Lanes*>(p); }
inline const Lanes& At(const float* p) { return *reinterpret_cast<const Lanes*>(p); }

inline float Passed(float upstream, float relu) { return upstream * (relu > 0 ? 1.0f : 0.0f); }
inline Eight Passed(Eight upstream, Eight relu) {
  const Eight ones = Eight{} + 1.0f;
  return upstream * reinterpret_cast<Eight>(reinterpret_cast<Bits>(ones) & (relu > Eight{}));
}

// The sum of row(begin), …, row(end - 1), of one column or of eight. An addition takes four cycles, so four are under
// way.
template <class T, class Row>
T SumRows(int64_t begin, int64_t end, Row row) {
  T sum[4] = {};
  int64_t r = begin;
  for (; r + 4 <= end; r += 4) {
    for (int i = 0; i < 4; ++i) sum[i] += row(r + i);
  }
  for (; r < end; ++r) sum[0] += row(r);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// One column, or eight, of a gradient, and its sum as far as it has come.
struct Strip {
  const BiasGradient* gradient;
  int64_t column;
  bool eight;
  Eight total;  // Of one column the first.

  void Add(int64_t begin, int64_t end) {
    const BiasGradient& g = *gradient;
    const int64_t n = g.columns, from = g.upstream_step == 0 ? n : g.upstream_step;
    const int64_t passes = g.relu_step == 0 ? n : g.relu_step;
    const float* const upstream = g.upstream + column;
    const float* const relu = g.relu == nullptr ? nullptr : g.relu + column;
    float* const out = g.relu == nullptr ? nullptr : g.gradient + column;
    if (eight && relu == nullptr) {
      total += SumRows<Eight>(begin, end, [=](int64_t r) -> Eight { return At(upstream + r * from); });
    } else if (eight) {
      total += SumRows<Eight>(begin, end, [=](int64_t r) -> Eight {
        return At(out + r * n) = Passed(At(upstream + r * from), At(relu + r * passes));
      });
    } else if (relu == nullptr) {
      total[0] += SumRows<float>(begin, end, [=](int64_t r) { return upstream[r * from]; });
    } else {
      total[0] += SumRows<float>(begin, end,
                                 [=](int64_t r) { return out[r * n] = Passed(upstream[r * from], relu[r * passes]); });
    }
  }

  void Finish() const {
    if (eight) {
      At(gradient->bias + column) = total;
    } else {
      gradient->bias[column] = total[0];
    }
  }
};

// A block of rows of all strips at a time: those beside each other in a wide matrix share cache lines. Blocks of 64
// rows take half as long again, since no strip's own rows are fetched ahead then.
void SumStrips(Strip* begin, Strip* end) {
  int64_t rows = 0;
  for (const Strip* s = begin; s != end; ++s) rows = std::max(rows, s->gradient->rows);
  for (int64_t first = 0; first < rows; first += kBlock) {
    for (Strip* s = begin; s != end; ++s) {
      if (first < s->gradient->rows) s->Add(first, std::min(first + kBlock, s->gradient->rows));
    }
  }
  for (const Strip* s = begin; s != end; ++s) s->Finish();
}

}  // namespace

void SumBiasGradients(const std::vector<BiasGradient>& gradients, ParallelFor& pf) {
  std::vector<Strip> strips;
  int64_t total_ns = 0;
  for (const BiasGradient& g : gradients) {
    int64_t j = 0;
    for (; j + 8 <= g.columns; j += 8) strips.push_back(Strip{&g, j, true, Eight{}});
    for (; j < g.columns; ++j) strips.push_back(Strip{&g, j, false, Eight{}});
    total_ns += 50 + g.rows * g.columns / (g.relu == nullptr ? 6 : 3);
  }
  const int64_t size = static_cast<int64_t>(strips.size());
  if (size == 0) return;
  pf.Run(size, total_ns / size + 1,
         [&](int64_t begin, int64_t end) { SumStrips(strips.data() + begin, strips.data() + end); });
}

}  // namespace tf_booster
