#include "cc/core/columns/multi_hot.h"

#include <algorithm>

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
  int64_t rows = 0, elements = 0;
  std::vector<int64_t> first = {0};  // Rows of all, one after the other.
  for (const MultiHot& m : all) {
    rows += m.rows;
    elements += m.rows * (m.width() + m.of_row);
    first.push_back(rows);
  }
  if (rows == 0) return;
  pf.Run(rows, 5 + elements / rows / 4, [&](int64_t begin, int64_t end) {
    size_t i = std::upper_bound(first.begin(), first.end(), begin) - first.begin() - 1;
    for (; begin < end; ++i) {
      const int64_t stop = std::min(end, first[i + 1]);
      WriteRows(all[i], begin - first[i], stop - first[i]);
      begin = stop;
    }
  });
}

}  // namespace tf_booster
