#include "cc/core/products/pair_dots.h"

#include <algorithm>

#include "cc/core/products/pair_dots_levels.h"

namespace tf_booster {
namespace {

constexpr int64_t kRows = 4;  // Of a group of PairPlan.

const PairLoops& LoopsOf(SimdLevel level) {
  if (level >= SimdLevel::kAvx512) return kAvx512Pairs;
  return level >= SimdLevel::kAvx2 ? kAvx2Pairs : kScalarPairs;
}

int64_t ExampleNs(const PairPlan& plan, int64_t dim) {
  return 20 + plan.fields() * plan.fields() * dim / 80 + plan.fields() * dim / 8 + plan.size() / 8;
}

}  // namespace

PairPlan::PairPlan(int64_t fields, const std::vector<int64_t>& pairs)
    : fields_(fields),
      size_(static_cast<int64_t>(pairs.size())),
      begins_((fields + kRows - 1) / kRows, fields),
      ends_(begins_.size(), 0) {
  for (int64_t p = 0; p < size_; ++p) {
    const int64_t i = pairs[p] / fields, j = pairs[p] % fields;
    if (p > 0 && j > 0 && pairs[p] == pairs[p - 1] + 1) {
      ++runs_.back().length;
    } else {
      runs_.push_back({i, j, p, 1});
    }
    begins_[i / kRows] = std::min(begins_[i / kRows], j);
    ends_[i / kRows] = std::max(ends_[i / kRows], j + 1);
  }
  runs_by_row_ = runs_;
  std::sort(runs_by_row_.begin(), runs_by_row_.end(),
            [](const Run& a, const Run& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
  // A run of each row but the first, from 0 to below the diagonal; no two of one row can be such.
  if (static_cast<int64_t>(runs_.size()) != fields - 1) return;
  std::vector<int64_t> places = {0};
  for (const Run& run : runs_by_row_) {
    if (run.column != 0 || run.length != run.row) return;
    places.push_back(run.place);
  }
  lower_ = places;
}

SimdLevel PairDotsLevel() {
  static const SimdLevel level = [] {
    if (!Runs(SimdLevel::kAvx2) || !__builtin_cpu_supports("fma")) return SimdLevel::kScalar;
    return Runs(SimdLevel::kAvx512) ? SimdLevel::kAvx512 : SimdLevel::kAvx2;
  }();
  return level;
}

void DotPairs(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
              DotColumns<float> dots, ParallelFor& pf, FunctionRef<void(int64_t, int64_t)> also, SimdLevel level) {
  pf.Run(rows, ExampleNs(plan, dim),
         [&](int64_t begin, int64_t end) { LoopsOf(level).dots(plan, begin, end, dim, parts, dots, also); });
}

void DotPairs(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
              DotColumns<float> dots, ParallelFor& pf, SimdLevel level) {
  const auto nothing = [](int64_t, int64_t) {};
  DotPairs(plan, rows, dim, parts, dots, pf, nothing, level);
}

void DotPairsGradient(const PairPlan& plan, int64_t rows, int64_t dim, DotColumns<const float> gradient,
                      const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients,
                      ParallelFor& pf, SimdLevel level) {
  pf.Run(rows, 2 * ExampleNs(plan, dim), [&](int64_t begin, int64_t end) {
    LoopsOf(level).gradients(plan, begin, end, dim, gradient, parts, gradients);
  });
}

}  // namespace tf_booster
