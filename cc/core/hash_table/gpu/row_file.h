// Values of a card's rows that are on a disk: a file, in which a row's place is its number times the stride.
//
// Kernels cannot address it, so rows go to and from the card by way of arrays in which they stand side by side, at the
// distance of the stride as well. Failures of the disk are answers, not signals: nothing is mapped.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_ROW_FILE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_ROW_FILE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/page_file.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/hash_table/row_layout.h"

namespace tf_booster {
namespace gpu {

// Of a row number, for Read: the row is new, and what is in its place nobody wants. Row numbers have 31 bits.
inline constexpr uint32_t kNewRow = 0x80000000u;

class RowFile {
 public:
  explicit RowFile(const RowLayout& layout) : layout_(layout) {}

  // Room for rows up to `end` - 1, of which the first call's `begin` is the first. False where there is none, or where
  // the folder takes no file.
  bool Extend(const std::string& folder, int64_t begin, int64_t end) {
    std::string why;  // Whoever made the table knows: it has tried.
    if (file_ == nullptr && (file_ = PageFile::New(folder, &why)) != nullptr) file_->BeginAt(PlaceOf(begin));
    return file_ != nullptr && file_->HaveUntil(PlaceOf(end));
  }

  // Begins to read rows, without kNewRow, and does not wait for them. Beside any other call.
  void ReadAhead(const std::vector<uint32_t>& rows) const {
    OnThreads(static_cast<int64_t>(rows.size()), [&](int64_t begin, int64_t end) {
      std::vector<int64_t> places;
      for (int64_t i = begin; i < end; ++i) places.push_back(PlaceOf(rows[i]));
      file_->ReadAhead(places.data(), end - begin, RowBytes());
    });
  }
  // rows: flagged by kNewRow, or not. False where the disk fails.
  bool Read(const uint32_t* rows, int64_t n, char* to) const {
    std::atomic<bool> well{true};
    OnThreads(n, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> missing, places;
      for (int64_t i = begin; i < end; ++i) {
        if ((rows[i] & kNewRow) != 0 || file_->ReadNow(PlaceOf(rows[i]), RowBytes(), to + PlaceOf(i))) continue;
        missing.push_back(i);
        places.push_back(PlaceOf(rows[i]));
      }
      file_->ReadAhead(places.data(), static_cast<int64_t>(places.size()), RowBytes());
      for (const int64_t i : missing) {
        if (!file_->Read(PlaceOf(rows[i]), RowBytes(), to + PlaceOf(i))) well = false;
      }
    });
    return well;
  }
  // new_only: of those flagged by kNewRow.
  bool Write(const uint32_t* rows, int64_t n, const char* from, bool new_only = false) {
    bool well = true;
    for (int64_t i = 0; i < n; ++i) {
      if (new_only && (rows[i] & kNewRow) == 0) continue;
      well &= file_->Write(PlaceOf(rows[i] & ~kNewRow), RowBytes(), from + PlaceOf(i));
    }
    return well;
  }

 private:
  // A disk answers many questions at a time, and a thread waits with each (12 us where a page is read). Writes, to
  // pages that are in memory, take turns in the kernel whoever writes.
  static constexpr int64_t kThreads = 8, kRowsOfThread = 512;

  static void OnThreads(int64_t rows, FunctionRef<void(int64_t begin, int64_t end)> body) {
    ThreadFor threads(static_cast<int>(std::clamp<int64_t>(rows / kRowsOfThread, 1, kThreads)));
    threads.Run(rows, 1000, body);
  }
  int64_t RowBytes() const { return layout_.values() * layout_.value_bytes; }
  int64_t PlaceOf(int64_t row) const { return row * layout_.stride_bytes; }

  const RowLayout layout_;
  std::unique_ptr<PageFile> file_;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_ROW_FILE_H_
