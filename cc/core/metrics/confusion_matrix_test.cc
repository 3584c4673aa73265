#include "cc/core/metrics/confusion_matrix.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <random>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

void Check(int64_t n, std::vector<float> thresholds, int64_t prediction_step, int64_t label_step, ParallelFor& pf) {
  std::mt19937 random(static_cast<unsigned>(n + 7 * thresholds.size()));
  std::sort(thresholds.begin(), thresholds.end());
  std::vector<float> predictions(n + 1);
  const auto labels = std::make_unique<bool[]>(n + 1);
  for (int64_t i = 0; i <= n; ++i) {
    const auto kind = random() % 10;
    predictions[i] = static_cast<float>(random() % 1000) / 999.0f;
    if (kind < 3 && !thresholds.empty()) predictions[i] = thresholds[random() % thresholds.size()];
    if (kind == 3) predictions[i] = std::numeric_limits<float>::quiet_NaN();
    if (kind == 4) predictions[i] = std::numeric_limits<float>::infinity();
    if (kind == 5) predictions[i] = -0.0f;
    labels[i] = random() % 3 == 0;
  }
  CountsAbove counts;
  CountAbove({n, predictions.data(), prediction_step, labels.get(), label_step}, thresholds, pf, &counts);
  std::vector<int32_t> places(thresholds.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int32_t>(places.size() - 1 - i);
  for (const bool label : {false, true}) {
    std::vector<float> above(places.size() + 1, -1.0f), not_above(places.size() + 1, -1.0f);
    SplitAtThresholds(counts[label], places, above.data(), not_above.data());
    for (size_t t = 0; t < thresholds.size(); ++t) {
      int64_t wanted = 0, rest = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (labels[i * label_step] != label) continue;
        ++(predictions[i * prediction_step] > thresholds[t] ? wanted : rest);
      }
      EXPECT_EQ(above[places[t]], static_cast<float>(wanted));
      EXPECT_EQ(not_above[places[t]], static_cast<float>(rest));
    }
    EXPECT_EQ(above.back(), -1.0f);
    EXPECT_EQ(not_above.back(), -1.0f);
  }
}

TEST(AsComparedOneByOne) {
  SerialFor serial;
  ThreadFor threads(3);
  std::vector<float> even, odd = {0.5f, 0.5f, 0.0f, -0.0f, -std::numeric_limits<float>::infinity(), 2.0f};
  for (int i = 0; i < 200; ++i) even.push_back(static_cast<float>(i) / 199.0f);
  for (const auto& thresholds : {even, odd, std::vector<float>{0.3f}, std::vector<float>()}) {
    for (const int64_t n : {0, 1, 5, 3000}) {
      Check(n, thresholds, 1, 1, serial);
      Check(n, thresholds, 1, 1, threads);
      Check(n, thresholds, 0, 1, serial);
      Check(n, thresholds, 1, 0, serial);
    }
  }
}

}  // namespace
}  // namespace tf_booster
