#include "cc/core/clipping/clip_rows.h"

#include "cc/core/base/job_ranges.h"
#include "cc/core/clipping/clip_row.h"

namespace tf_booster {
namespace {

// What TensorFlow's kernels compute at once; of a tensor of roots, one a row, the rest is computed one by one.
constexpr int64_t kRowsOfVector = 8;

void ClipSome(const ClipRows& job, int64_t begin, int64_t end) {
  const int64_t in_vectors = job.count / kRowsOfVector * kRowsOfVector;
  for (int64_t r = begin; r < end; ++r) {
    const RowClipping row(job.rows + r * job.dim, job.dim, job.max_norm);
    float* const out = job.out + r * job.dim;
    if (job.grads == nullptr) {
      row.Clip(out);
    } else {
      row.Gradient(job.grads + r * job.dim, r >= in_vectors, out);
    }
  }
}

}  // namespace

void ClipAllRows(const std::vector<ClipRows>& all, ParallelFor& pf) {
  std::vector<int64_t> counts;
  int64_t total_ns = 0;
  for (const ClipRows& job : all) {
    counts.push_back(job.count);
    total_ns += job.count * (20 + job.dim);
  }
  JobRanges(counts, total_ns).Run(pf, [&](size_t j, int64_t begin, int64_t end) { ClipSome(all[j], begin, end); });
}

}  // namespace tf_booster
