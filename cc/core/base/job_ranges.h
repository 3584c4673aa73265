// One parallel loop over the units (rows, say) of many jobs: 40 lookups of 32 rows are one loop of 1280, not 40 of 32.
#ifndef TF_BOOSTER_CC_CORE_BASE_JOB_RANGES_H_
#define TF_BOOSTER_CC_CORE_BASE_JOB_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

class JobRanges {
 public:
  // units[j]: of job j. total_ns: what all of them take.
  JobRanges(const std::vector<int64_t>& units, int64_t total_ns) : total_ns_(total_ns) {
    ends_.reserve(units.size());
    for (const int64_t count : units) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count);
  }

  // Calls body(job, begin, end) on ranges that cover the units of all jobs, each once.
  template <class Body>
  void Run(ParallelFor& pf, Body body) const {
    const int64_t total = ends_.empty() ? 0 : ends_.back();
    if (total == 0) return;
    pf.Run(total, total_ns_ / total + 1, [&](int64_t begin, int64_t end) {
      size_t job = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
      while (begin < end) {
        const int64_t start = job == 0 ? 0 : ends_[job - 1];
        const int64_t stop = std::min(end, ends_[job]);
        if (begin < stop) body(job, begin - start, stop - start);
        begin = stop;
        ++job;
      }
    });
  }

 private:
  std::vector<int64_t> ends_;
  int64_t total_ns_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_JOB_RANGES_H_
