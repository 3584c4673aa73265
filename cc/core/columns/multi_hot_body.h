// Multi-hot rows as a body for the GPU: a unit is up to four columns of a row, which one thread counts the row's ids in
// and writes at once. Nothing is cleared before and no thread waits for another; the ids of a row, few, are in the
// caches.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_BODY_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_BODY_H_

#include <vector>

#include "cc/core/columns/multi_hot_gpu.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"

namespace tf_booster {
namespace gpu {

struct MultiHotJob {
  const int64_t* ids;
  int64_t of_row, depth, width;  // of_row: ids that may stand in a column: all of a row, or one.
  float* out;
  bool packed;  // Whether packs begin where rows, and the columns of an id, do.
  int64_t units;
};

struct CountIds {
  TFB_HOST_DEVICE void operator()(const MultiHotJob& job, int64_t unit) const {
    RunColumns<float>(job.packed, job.width, unit, [&](auto pack, int64_t row, int64_t column) {
      using V = decltype(pack);
      const int64_t place = column / job.depth;
      const int64_t first = column - place * job.depth;
      const int64_t* ids = job.ids + (row * (job.width / job.depth) + place) * job.of_row;
      V counts = V();
      for (int64_t i = 0; i < job.of_row; ++i) {
        const uint64_t column_of_pack = static_cast<uint64_t>(ids[i]) - static_cast<uint64_t>(first);
        TFB_UNROLL
        for (int e = 0; e < V::kSize; ++e) counts.at[e] += column_of_pack == static_cast<uint64_t>(e) ? 1.0f : 0.0f;
      }
      StorePack(reinterpret_cast<V*>(job.out + row * job.width + column), counts);
    });
  }
};

template <class Queue>
void WriteMultiHotsOn(Queue& queue, const std::vector<MultiHot>& all) {
  std::vector<MultiHotJob> jobs;
  for (const MultiHot& m : all) {
    const int64_t width = m.width();
    const bool packed = m.depth % Pack<float>::kSize == 0 && IsPackAligned(m.out);
    const int64_t units = width > 0 ? m.rows * UnitsOfRow<float>(packed, width) : 0;
    jobs.push_back({m.ids, m.apart ? 1 : m.of_row, m.depth, width, m.out, packed, units});
  }
  ForEachUnit(queue, jobs, CountIds());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_BODY_H_
