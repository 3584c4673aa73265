#include "cc/core/columns/column_copy.h"

#include <algorithm>
#include <cstring>

namespace tf_booster {
namespace {

constexpr int64_t kBlockBytes = 1 << 14;  // Of the wide matrix: half of a first-level cache.

// `rows` pieces of kWidth bytes each, from `from_step` bytes apart to `to_step` bytes apart.
template <int64_t kWidth>
void CopyPieces(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_step, from + r * from_step, kWidth);
}

void CopyPieces(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t rows, int64_t width) {
  switch (width) {
    case 4:
      return CopyPieces<4>(from, from_step, to, to_step, rows);
    case 16:
      return CopyPieces<16>(from, from_step, to, to_step, rows);
    case 32:
      return CopyPieces<32>(from, from_step, to, to_step, rows);
    case 64:
      return CopyPieces<64>(from, from_step, to, to_step, rows);
    case 128:
      return CopyPieces<128>(from, from_step, to, to_step, rows);
    default:
      break;
  }
  if (width < 16 || width > 256) {
    for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_step, from + r * from_step, width);
    return;
  }
  // By 16 bytes; the last 16 may overlap the ones before.
  const int64_t last = width - 16;
  for (int64_t r = 0; r < rows; ++r, from += from_step, to += to_step) {
    for (int64_t i = 0; i < last; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + last, from + last, 16);
  }
}

// Calls copy(part, offset in a row of the wide matrix, first row, rows), a block of rows of all parts at a time.
template <class Parts, class Copy>
void ForBlocks(const Parts& parts, int64_t rows, ParallelFor& pf, Copy copy) {
  int64_t row_bytes = 0;
  for (const auto& part : parts) row_bytes += part.width;
  if (row_bytes == 0) return;
  const int64_t block = std::max<int64_t>(1, kBlockBytes / row_bytes);
  // 2 ns a piece, and 16 bytes a nanosecond.
  const int64_t row_ns = 1 + 2 * static_cast<int64_t>(parts.size()) + row_bytes / 16;
  pf.Run(rows, row_ns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += block) {
      const int64_t count = std::min(block, end - row);
      int64_t offset = 0;
      for (const auto& part : parts) {
        copy(part, row * row_bytes + offset, row, count, row_bytes);
        offset += part.width;
      }
    }
  });
}

}  // namespace

void JoinColumns(const std::vector<Columns<const char>>& parts, int64_t rows, char* wide, ParallelFor& pf) {
  ForBlocks(parts, rows, pf,
            [&](const Columns<const char>& part, int64_t at, int64_t row, int64_t count, int64_t step) {
              CopyPieces(part.data + row * part.width, part.width, wide + at, step, count, part.width);
            });
}

void PutColumns(const Columns<const char>& part, int64_t begin, int64_t end, char* wide, int64_t step) {
  CopyPieces(part.data + begin * part.width, part.width, wide + begin * step, step, end - begin, part.width);
}

void SplitColumns(const char* wide, int64_t rows, const std::vector<Columns<char>>& parts, ParallelFor& pf) {
  ForBlocks(parts, rows, pf, [&](const Columns<char>& part, int64_t at, int64_t row, int64_t count, int64_t step) {
    CopyPieces(wide + at, step, part.data + row * part.width, part.width, count, part.width);
  });
}

}  // namespace tf_booster
