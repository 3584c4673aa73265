// The loops over examples that pair_dots.cc chooses from, a set for each level.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_LEVELS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_LEVELS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/products/pair_dots.h"

namespace tf_booster {

// Of the examples [begin, end).
struct PairLoops {
  void (*dots)(const PairPlan& plan, int64_t begin, int64_t end, int64_t dim,
               const std::vector<FieldPart<const float>>& parts, DotColumns<float> dots,
               FunctionRef<void(int64_t, int64_t)> also);
  void (*gradients)(const PairPlan& plan, int64_t begin, int64_t end, int64_t dim, DotColumns<const float> gradient,
                    const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients);
};

extern const PairLoops kScalarPairs, kAvx2Pairs, kAvx512Pairs;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_LEVELS_H_
