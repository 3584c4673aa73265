#include "cc/core/base/page_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tf_booster {
namespace {

// Room is taken by so much at a time: a call takes some milliseconds.
constexpr int64_t kGrowth = int64_t{64} << 20;

int OpenNameless(const std::string& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  // A file system without such files.
  std::string name = folder + "/tf_booster_XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace

std::unique_ptr<PageFile> PageFile::New(const std::string& folder, std::string* why) {
  const int file = OpenNameless(folder);
  if (file < 0) {
    *why = "no file can be made in folder '" + folder + "': " + std::strerror(errno);
    return nullptr;
  }
  return std::unique_ptr<PageFile>(new PageFile(file));
}

PageFile::~PageFile() { close(file_); }

size_t PageFile::PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* PageFile::Map(void* place, size_t bytes, int64_t offset) {
  void* const memory =
      mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (place == nullptr ? 0 : MAP_FIXED), file_, offset);
  if (memory == MAP_FAILED) return nullptr;
  // A page alone: its neighbours are of no use to somebody who reads rows at random.
  madvise(memory, bytes, MADV_RANDOM);
  if (begin_ < 0) BeginAt(offset);
  return memory;
}

void PageFile::BeginAt(int64_t offset) { begin_ = end_ = offset; }

bool PageFile::HaveUntil(int64_t end) {
  if (begin_ < 0 || end <= end_) return true;
  const auto take = [&](int64_t bytes) { return posix_fallocate(file_, end_, bytes) == 0; };
  const int64_t page = static_cast<int64_t>(PageBytes()), pages = (end - end_ + page - 1) / page * page;
  // The last of a disk is taken page by page.
  int64_t taken = std::max(pages, kGrowth);
  if (!take(taken) && !take(taken = pages)) return false;
  end_ += taken;
  return true;
}

bool PageFile::Read(int64_t offset, int64_t bytes, void* to) const {
  for (char* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t read = pread(file_, at, static_cast<size_t>(bytes), offset);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    at += read, offset += read, bytes -= read;
  }
  return true;
}

bool PageFile::ReadNow(int64_t offset, int64_t bytes, void* to) const {
  const iovec part = {to, static_cast<size_t>(bytes)};
  return preadv2(file_, &part, 1, offset, RWF_NOWAIT) == bytes;
}

bool PageFile::Write(int64_t offset, int64_t bytes, const void* from) {
  for (const char* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t written = pwrite(file_, at, static_cast<size_t>(bytes), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written, offset += written, bytes -= written;
  }
  return true;
}

void PageFile::ReadAhead(int64_t* offsets, int64_t n, int64_t bytes) const {
  const int64_t page = static_cast<int64_t>(PageBytes());
  std::sort(offsets, offsets + n);
  int64_t begin = 0, end = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = offsets[i] / page * page;
    if (first >= end + page - 1) {
      if (end > begin) ReadAhead(begin, end - begin);
      begin = first;
    }
    end = std::max(end, offsets[i] + bytes);
  }
  if (end > begin) ReadAhead(begin, end - begin);
}

void PageFile::ReadAhead(int64_t offset, int64_t bytes) const {
  constexpr int64_t kMost = 128 << 10;  // Of more, kernels read the beginning only.
  for (const int64_t end = offset + bytes; offset < end; offset += kMost) {
    readahead(file_, offset, static_cast<size_t>(std::min(kMost, end - offset)));
  }
}

}  // namespace tf_booster
