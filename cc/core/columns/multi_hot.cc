#include "cc/core/columns/multi_hot.h"

#include <algorithm>

#include "cc/core/base/job_ranges.h"

namespace tf_booster {
namespace {

void WriteRows(const MultiHot& m, int64_t begin, int64_t end) {
  const int64_t width = m.width();
  std::fill(m.out + begin * width, m.out + end * width, 0.0f);
  for (int64_t row = begin; row < end; ++row) {
    float* columns = m.out + row * width;
    for (const int64_t *id = m.ids + row * m.of_row, *last = id + m.of_row; id < last; ++id) {
      if (*id >= 0 && *id < m.depth) columns[*id] += 1.0f;
      if (m.apart) columns += m.depth;
    }
  }
}

}  // namespace

void WriteMultiHots(const std::vector<MultiHot>& all, ParallelFor& pf) {
  int64_t ns = 0;
  std::vector<int64_t> rows;
  for (const MultiHot& m : all) {
    ns += m.rows * (20 + m.width() + m.of_row) / 4;
    rows.push_back(m.rows);
  }
  JobRanges(rows, ns).Run(pf, [&](size_t i, int64_t begin, int64_t end) { WriteRows(all[i], begin, end); });
}

}  // namespace tf_booster
