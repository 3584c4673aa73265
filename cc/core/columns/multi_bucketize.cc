#include "cc/core/columns/multi_bucketize.h"

#include <algorithm>

#include "cc/core/base/job_ranges.h"
#include "cc/core/columns/bucket_of.h"

namespace tf_booster {
namespace {

// Up to here a vector of numbers is compared with each boundary in turn, and beyond, each number with few: with 10, 29
// and 64 boundaries 1.0, 2.2 and 4.3 ns a number, where a search takes 5.8, 7.6 and 9.7 and std::upper_bound 16, 24 and
// 31 (Zen 4). A search among 100 takes 11.8, among 1,000 19.
constexpr int32_t kFewBoundaries = 128;
constexpr int64_t kNumbersAtOnce = 32;

template <class T>
void CountBoundaries(const T* numbers, int64_t n, const float* boundaries, int32_t num_boundaries, int32_t* buckets) {
  int32_t counts[kNumbersAtOnce] = {0};
  for (int32_t b = 0; b < num_boundaries; ++b) {
    const float boundary = boundaries[b];
    for (int64_t i = 0; i < n; ++i) counts[i] += static_cast<int32_t>(!(numbers[i] < boundary));
  }
  std::copy(counts, counts + n, buckets);
}

template <class T>
void WriteSome(const Bucketize<T>& feature, int64_t begin, int64_t end) {
  if (feature.num_boundaries > kFewBoundaries) {
    for (int64_t i = begin; i < end; ++i) {
      feature.buckets[i] = BucketOf(feature.numbers[i], feature.boundaries, feature.num_boundaries);
    }
    return;
  }
  for (; end - begin >= kNumbersAtOnce; begin += kNumbersAtOnce) {
    CountBoundaries(feature.numbers + begin, kNumbersAtOnce, feature.boundaries, feature.num_boundaries,
                    feature.buckets + begin);
  }
  CountBoundaries(feature.numbers + begin, end - begin, feature.boundaries, feature.num_boundaries,
                  feature.buckets + begin);
}

}  // namespace

template <class T>
void WriteBuckets(const std::vector<Bucketize<T>>& all, ParallelFor& pf) {
  int64_t ns = 0;
  std::vector<int64_t> numbers;
  for (const Bucketize<T>& feature : all) {
    ns += 3 * feature.n;
    numbers.push_back(feature.n);
  }
  JobRanges(numbers, ns).Run(pf, [&](size_t i, int64_t begin, int64_t end) { WriteSome(all[i], begin, end); });
}

template void WriteBuckets(const std::vector<Bucketize<float>>&, ParallelFor&);
template void WriteBuckets(const std::vector<Bucketize<double>>&, ParallelFor&);
template void WriteBuckets(const std::vector<Bucketize<int32_t>>&, ParallelFor&);
template void WriteBuckets(const std::vector<Bucketize<int64_t>>&, ParallelFor&);

}  // namespace tf_booster
