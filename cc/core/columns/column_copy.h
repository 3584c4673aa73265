// Many narrow matrices beside each other as one wide one, and back: what ConcatV2 and SplitV do along the last axis.
//
// TensorFlow calls memmove for each piece of a row, 20 to 40 ns for 32 bytes. Here a piece is a few vector moves, and
// all matrices are gone through a few rows at a time, which stay in the first-level cache.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// Some of the columns of a wide matrix, which lie packed at `data`, [rows, width]. Widths are in bytes.
template <class Byte>
struct Columns {
  Byte* data = nullptr;
  int64_t width = 0;
};

// Writes the rows of `parts`, one part beside the other, to `wide`: [rows, sum of the widths], packed.
void JoinColumns(const std::vector<Columns<const char>>& parts, int64_t rows, char* wide, ParallelFor& pf);

// Writes some of the columns of `wide`, whose rows are `step` bytes apart: rows [begin, end) of `part`.
void PutColumns(const Columns<const char>& part, int64_t begin, int64_t end, char* wide, int64_t step);

// JoinColumns the other way round.
void SplitColumns(const char* wide, int64_t rows, const std::vector<Columns<char>>& parts, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_H_
