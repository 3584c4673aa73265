// The card's buckets of numbers, run by the host, and, compiled by nvcc, on a card; the CPU's beside them.
#include "cc/core/columns/multi_bucketize_body.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/columns/multi_bucketize.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace {

using gpu::Array;

template <class T>
using All = std::vector<Bucketize<T>>;

template <class T>
void RunOnCard(const All<T>& all, const std::vector<float>& boundaries) {
  Array<float> on_card(boundaries.size() + 1, -3.0f);
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::WriteBucketsAsync(all, boundaries, on_card.data(), nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(3);
  gpu::WriteBucketsOn(queue, all, boundaries, on_card.data());
#endif
}

template <class T>
void RunOnCpu(const All<T>& all, const std::vector<float>&) {
  ThreadFor pf(3);
  WriteBuckets(all, pf);
}

struct Feature {
  int64_t n;
  int32_t num_boundaries;
};

template <class T>
T Number(std::mt19937* random, const std::vector<float>& boundaries) {
  const int kind = static_cast<int>((*random)() % 8);
  if (kind < 3 && !boundaries.empty()) return static_cast<T>(boundaries[(*random)() % boundaries.size()]);
  if (kind == 3) return std::numeric_limits<T>::lowest();
  if (kind == 4) return std::numeric_limits<T>::max();
  if (kind == 5 && std::numeric_limits<T>::has_quiet_NaN) return std::numeric_limits<T>::quiet_NaN();
  if (kind == 6 && std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
  return static_cast<T>(static_cast<double>((*random)() % 2000) / 10.0 - 100.0);
}

template <class T>
void Check(const std::vector<Feature>& features, void (*run)(const All<T>&, const std::vector<float>&)) {
  std::mt19937 random(7);
  std::vector<std::vector<float>> of_feature;
  std::vector<float> boundaries;
  for (const Feature& f : features) {
    std::vector<float> made(f.num_boundaries);
    for (float& boundary : made) boundary = static_cast<float>(random() % 400) / 2.0f - 100.0f;  // Some are equal.
    std::sort(made.begin(), made.end());
    boundaries.insert(boundaries.end(), made.begin(), made.end());
    of_feature.push_back(made);
  }
  std::vector<Array<T>> numbers;
  std::vector<Array<int32_t>> buckets;
  numbers.reserve(features.size());
  buckets.reserve(features.size());
  All<T> all;
  int64_t first = 0;
  for (size_t i = 0; i < features.size(); ++i) {
    numbers.emplace_back(features[i].n + 1, T());
    for (T& number : numbers.back()) number = Number<T>(&random, of_feature[i]);
    buckets.emplace_back(features[i].n + 1, -5);
    all.push_back({numbers.back().data(), features[i].n, boundaries.data() + first, features[i].num_boundaries,
                   buckets.back().data()});
    first += features[i].num_boundaries;
  }
  run(all, boundaries);
  for (size_t i = 0; i < all.size(); ++i) {
    bool same = true;
    for (int64_t at = 0; at < all[i].n; ++at) {
      const auto& b = of_feature[i];
      const auto wanted = std::upper_bound(b.begin(), b.end(), numbers[i][at]) - b.begin();
      same = same && buckets[i][at] == wanted;
    }
    EXPECT_TRUE(same);
    EXPECT_EQ(buckets[i][all[i].n], -5);  // Nothing is written behind.
  }
}

template <class T>
void CheckAll(void (*run)(const All<T>&, const std::vector<float>&)) {
  for (const int64_t n : {0, 1, 31, 32, 33, 700}) {
    Check<T>({{n, 0}, {n, 1}, {n, 2}, {n, 7}, {n, 127}}, run);
    Check<T>({{n, 128}, {0, 3}, {n, 129}, {n, 1000}}, run);
  }
  Check<T>(std::vector<Feature>(150, {9, 50}), run);  // More than a launch takes, and more boundaries.
}

TEST(CardWritesBucketsOfFloats) { CheckAll<float>(RunOnCard<float>); }
TEST(CardWritesBucketsOfDoubles) { CheckAll<double>(RunOnCard<double>); }
TEST(CpuWritesBuckets) {
  CheckAll<float>(RunOnCpu<float>);
  CheckAll<double>(RunOnCpu<double>);
  CheckAll<int32_t>(RunOnCpu<int32_t>);
  CheckAll<int64_t>(RunOnCpu<int64_t>);
}

}  // namespace
}  // namespace tf_booster
