// The buckets of numbers as a body for the GPU: a unit is one number. A feature's boundaries, which all its threads
// read, stay in the caches.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_BODY_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_BODY_H_

#include <vector>

#include "cc/core/columns/bucket_of.h"
#include "cc/core/columns/multi_bucketize_gpu.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/write_values.h"

namespace tf_booster {
namespace gpu {

template <class T>
struct BucketizeJob {
  const T* numbers;
  const float* boundaries;
  int32_t num_boundaries;
  int32_t* buckets;
  int64_t units;
};

struct FindBucket {
  template <class T>
  TFB_HOST_DEVICE void operator()(const BucketizeJob<T>& job, int64_t unit) const {
    job.buckets[unit] = BucketOf(job.numbers[unit], job.boundaries, job.num_boundaries);
  }
};

template <class Queue, class T>
void WriteBucketsOn(Queue& queue, const std::vector<Bucketize<T>>& all, const std::vector<float>& boundaries,
                    float* on_card) {
  Write(queue, boundaries.data(), static_cast<int64_t>(boundaries.size()), on_card);
  std::vector<BucketizeJob<T>> jobs;
  for (const Bucketize<T>& b : all) {
    jobs.push_back({b.numbers, on_card + (b.boundaries - boundaries.data()), b.num_boundaries, b.buckets, b.n});
  }
  ForEachUnit(queue, jobs, FindBucket());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_BODY_H_
