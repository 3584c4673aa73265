#include "cc/core/metrics/confusion_matrix.h"

#include <mutex>
#include <numeric>

#include "cc/core/base/count_before.h"

namespace tf_booster {

void CountAbove(const LabelledPredictions& given, const std::vector<float>& thresholds, ParallelFor& pf,
                CountsAbove* counts) {
  const size_t size = thresholds.size() + 1;
  for (auto& of_label : *counts) of_label.assign(size, 0);
  std::mutex adding;
  pf.Run(given.n, 15, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> mine(2 * size);
    const float* const sorted = thresholds.data();
    for (int64_t i = begin; i < end; ++i) {
      const float prediction = given.predictions[i * given.prediction_step];
      const int32_t above =
          CountBefore(static_cast<int32_t>(size - 1), [=](int32_t at) { return sorted[at] < prediction; });
      ++mine[(given.labels[i * given.label_step] ? size : 0) + above];
    }
    std::lock_guard<std::mutex> lock(adding);
    for (size_t c = 0; c < size; ++c) {
      (*counts)[0][c] += mine[c];
      (*counts)[1][c] += mine[size + c];
    }
  });
}

void SplitAtThresholds(const std::vector<int64_t>& counts, const std::vector<int32_t>& places, float* above,
                       float* not_above) {
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  int64_t below = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    below += counts[i];
    above[places[i]] = static_cast<float>(all - below);
    not_above[places[i]] = static_cast<float>(below);
  }
}

}  // namespace tf_booster
