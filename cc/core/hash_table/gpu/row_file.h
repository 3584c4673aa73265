// Values of a card's rows that are on a disk: a file, in which a row's place is its number times the stride.
//
// Kernels cannot address it, so rows go to and from the card by way of arrays in which they stand side by side, at the
// distance of the stride as well. Failures of the disk are answers, not signals: nothing is mapped.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_ROW_FILE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_ROW_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/base/page_file.h"
#include "cc/core/hash_table/row_layout.h"

namespace tf_booster {
namespace gpu {

// Of a row number, for Read and Write: the row is new, and what is in its place nobody wants. Row numbers have 31 bits.
inline constexpr uint32_t kNewRow = 0x80000000u;

// What has lambdas is in row_file.cc: nvcc's would have another layout under the same name.
class RowFile {
 public:
  explicit RowFile(const RowLayout& layout) : layout_(layout) {}

  // Room for rows up to `end` - 1, of which the first call's `begin` is the first. False where there is none, or where
  // the folder takes no file.
  bool Extend(const std::string& folder, int64_t begin, int64_t end);

  // Begins to read rows, without kNewRow, and does not wait for them. Beside any other call.
  void ReadAhead(const std::vector<uint32_t>& rows) const;

  // rows: flagged by kNewRow, or not. False where the disk fails.
  bool Read(const uint32_t* rows, int64_t n, char* to) const;
  // new_only: of those flagged by kNewRow.
  bool Write(const uint32_t* rows, int64_t n, const char* from, bool new_only = false);

 private:
  int64_t RowBytes() const { return layout_.values() * layout_.value_bytes; }
  int64_t PlaceOf(int64_t row) const { return row * layout_.stride_bytes; }

  const RowLayout layout_;
  std::unique_ptr<PageFile> file_;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_ROW_FILE_H_
