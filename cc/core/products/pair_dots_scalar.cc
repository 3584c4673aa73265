// Dots of pairs by loops that any processor runs.
#include <algorithm>

#include "cc/core/products/pair_dots_levels.h"

namespace tf_booster {
namespace {

// One example's vectors beside each other, [fields, dim].
void Read(const std::vector<FieldPart<const float>>& parts, int64_t row, int64_t dim, float* vectors) {
  for (const FieldPart<const float>& part : parts) {
    const float* const from = part.data + row * part.fields * dim;
    vectors = std::copy(from, from + part.fields * dim, vectors);
  }
}

void Dots(const PairPlan& plan, int64_t begin, int64_t end, int64_t dim,
          const std::vector<FieldPart<const float>>& parts, DotColumns<float> dots,
          FunctionRef<void(int64_t, int64_t)> also) {
  std::vector<float> v(plan.fields() * dim);
  for (int64_t row = begin; row < end; ++row) {
    Read(parts, row, dim, v.data());
    for (const PairPlan::Run& run : plan.runs()) {
      float* const out = dots.data + row * dots.step + run.place;
      for (int64_t j = 0; j < run.length; ++j) {
        const float *a = v.data() + run.row * dim, *b = v.data() + (run.column + j) * dim;
        float sum = 0;
        for (int64_t d = 0; d < dim; ++d) sum += a[d] * b[d];
        out[j] = sum;
      }
    }
  }
  also(begin, end);
}

void Gradients(const PairPlan& plan, int64_t begin, int64_t end, int64_t dim, DotColumns<const float> gradient,
               const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients) {
  const int64_t n = plan.fields();
  std::vector<float> v(n * dim), sums(n * dim), pairs(n * n);
  for (int64_t row = begin; row < end; ++row) {
    Read(parts, row, dim, v.data());
    for (const PairPlan::Run& run : plan.runs()) {
      const float* const in = gradient.data + row * gradient.step + run.place;
      std::copy(in, in + run.length, pairs.data() + run.row * n + run.column);
    }
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const float scale = pairs[i * n + j] + pairs[j * n + i];
        for (int64_t d = 0; d < dim; ++d) sums[i * dim + d] += scale * v[j * dim + d];
      }
    }
    const float* from = sums.data();
    for (const FieldPart<float>& part : gradients) {
      std::copy(from, from + part.fields * dim, part.data + row * part.fields * dim);
      from += part.fields * dim;
    }
  }
}

}  // namespace

const PairLoops kScalarPairs = {Dots, Gradients};

}  // namespace tf_booster
