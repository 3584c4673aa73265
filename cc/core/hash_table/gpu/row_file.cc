#include "cc/core/hash_table/gpu/row_file.h"

#include <algorithm>
#include <atomic>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace gpu {
namespace {

// A disk answers many questions at a time, and a thread waits with each (12 us where a page is read). Writes, to pages
// that are in memory, take turns in the kernel whoever writes.
constexpr int64_t kThreads = 8, kRowsOfThread = 512;

void OnThreads(int64_t rows, FunctionRef<void(int64_t begin, int64_t end)> body) {
  ThreadFor threads(static_cast<int>(std::clamp<int64_t>(rows / kRowsOfThread, 1, kThreads)));
  threads.Run(rows, 1000, body);
}

}  // namespace

bool RowFile::Extend(const std::string& folder, int64_t begin, int64_t end) {
  std::string why;  // Whoever made the table knows: it has tried.
  if (file_ == nullptr && (file_ = PageFile::New(folder, &why)) != nullptr) file_->BeginAt(PlaceOf(begin));
  return file_ != nullptr && file_->HaveUntil(PlaceOf(end));
}

void RowFile::ReadAhead(const std::vector<uint32_t>& rows) const {
  OnThreads(static_cast<int64_t>(rows.size()), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> places;
    for (int64_t i = begin; i < end; ++i) places.push_back(PlaceOf(rows[i]));
    file_->ReadAhead(places.data(), end - begin, RowBytes());
  });
}

bool RowFile::Read(const uint32_t* rows, int64_t n, char* to) const {
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

bool RowFile::Write(const uint32_t* rows, int64_t n, const char* from, bool new_only) {
  bool well = true;
  for (int64_t i = 0; i < n; ++i) {
    if (new_only && (rows[i] & kNewRow) == 0) continue;
    well &= file_->Write(PlaceOf(rows[i] & ~kNewRow), RowBytes(), from + PlaceOf(i));
  }
  return well;
}

}  // namespace gpu
}  // namespace tf_booster
