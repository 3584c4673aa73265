// Confusion matrices at many thresholds, as AUC is made of: predictions are counted between thresholds, where
// TensorFlow compares each of them with each.
#ifndef TF_BOOSTER_CC_CORE_METRICS_CONFUSION_MATRIX_H_
#define TF_BOOSTER_CC_CORE_METRICS_CONFUSION_MATRIX_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// n predictions with their labels. A step of 0: one for all.
struct LabelledPredictions {
  int64_t n = 0;
  const float* predictions = nullptr;
  int64_t prediction_step = 1;
  const bool* labels = nullptr;
  int64_t label_step = 1;
};

// counts[0][c]: how many that are labelled false lie above c of the thresholds; counts[1][c]: labelled true.
using CountsAbove = std::vector<int64_t>[2];

// thresholds: ascending. A NaN lies above none.
void CountAbove(const LabelledPredictions& given, const std::vector<float>& thresholds, ParallelFor& pf,
                CountsAbove* counts);

// For each threshold how many lie above it, of the counts of one label, and how many do not. `places`: where in the
// results the thresholds stand.
void SplitAtThresholds(const std::vector<int64_t>& counts, const std::vector<int32_t>& places, float* above,
                       float* not_above);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_METRICS_CONFUSION_MATRIX_H_
