// What indicator columns and bucketized columns make of ids: one or many ones among zeros for each row, or how often an
// id stands in it.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// Of ids [rows, of_row] the result is [rows, width()]. An id outside [0, depth) counts nowhere.
struct MultiHot {
  const int64_t* ids = nullptr;
  int64_t rows = 0;
  int64_t of_row = 0;
  int64_t depth = 0;
  bool apart = false;  // The ids of a row have `depth` columns each; else all of a row count in the same.
  float* out = nullptr;

  int64_t width() const { return apart ? of_row * depth : depth; }
};

void WriteMultiHots(const std::vector<MultiHot>& all, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_H_
