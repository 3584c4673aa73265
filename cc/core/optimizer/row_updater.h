// What HashTable::Update calls with the rows of each visit: an optimizer's step with the gradients of their keys.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_UPDATER_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_UPDATER_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/hash_table/hash_table.h"
#include "cc/core/optimizer/gradient_sums.h"
#include "cc/core/optimizer/row_optimizer.h"

namespace tf_booster {

class RowUpdater {
 public:
  RowUpdater(const GradientSums& sums, int64_t dim, const RowOptimizer& optimizer)
      : sums_(sums), dim_(dim), optimizer_(optimizer) {}

  void operator()(const RowVisit& visit) const {
    RowsToApply batch;
    batch.first = visit.first;
    LinesAhead ahead = visit.ahead;
    for (int64_t begin = 0; begin < visit.size; begin += kBlock) {
      const int64_t end = std::min(visit.size, begin + kBlock), taken = std::min(ahead.size, end - begin);
      batch.ahead = {ahead.lines, taken};
      Apply(visit, begin, end, &batch);
      ahead = {ahead.lines + taken, ahead.size - taken};
      batch.first = false;
    }
  }

 private:
  static constexpr int64_t kBlock = 256;  // More than a table shows at a time.

  // Steps on rows [begin, end) of a visit; of those behind them as many are fetched as an optimizer will.
  void Apply(const RowVisit& visit, int64_t begin, int64_t end, RowsToApply* batch) const {
    float* rows[kBlock + kMaxRowsAhead];
    const float* grads[kBlock + kMaxRowsAhead];
    int64_t n = 0;
    const auto add = [&](int64_t k) {  // Keys without a gradient were seen, but nothing flows back to them.
      rows[n] = visit.rows[k];
      grads[n] = sums_.Of(visit.positions[k]);
      n += grads[n] != nullptr;
    };
    for (int64_t k = begin; k < end; ++k) add(k);
    const int64_t size = n;
    for (int64_t k = end; k < visit.size + visit.following && n < size + kMaxRowsAhead; ++k) add(k);
    batch->rows = rows;
    batch->grads = grads;
    batch->size = size;
    batch->following = n - size;
    optimizer_.ApplyRows(*batch, dim_);
  }

  const GradientSums& sums_;
  const int64_t dim_;
  const RowOptimizer& optimizer_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_UPDATER_H_
