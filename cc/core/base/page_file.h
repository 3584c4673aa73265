// Memory on a disk: a file without a name, whose pages are mapped where memory would be, or which is read and written
// by place. The kernel keeps what is used in memory that nobody else wants, and writes the rest away.
#ifndef TF_BOOSTER_CC_CORE_BASE_PAGE_FILE_H_
#define TF_BOOSTER_CC_CORE_BASE_PAGE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tf_booster {

class PageFile {
 public:
  // Empty, in a folder of the disk; nobody else sees it, and it is gone with this object or the process. Null where it
  // cannot be made: *why says so.
  static std::unique_ptr<PageFile> New(const std::string& folder, std::string* why);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  // The unit of Map: 4 KiB.
  static size_t PageBytes();

  // Maps bytes [offset, offset + bytes) of the file, whole pages, at `place`, whatever is mapped there, or anywhere if
  // that is null. Null where the system refuses. Touch what HaveUntil allowed and nothing else. munmap gives it back.
  void* Map(void* place, size_t bytes, int64_t offset);

  // What the file holds begins at this offset. Map says so of the first that is mapped.
  void BeginAt(int64_t offset);

  // Takes room on the disk for all up to `end`, from where the file begins, so that a full disk is known before a page
  // is touched; afterwards it would kill the process. False where there is none.
  bool HaveUntil(int64_t end);

  // Without a mapping, within what HaveUntil allowed: what was never written is zeros. False where the disk fails.
  bool Read(int64_t offset, int64_t bytes, void* to) const;
  // As far as it is in memory. False where it is not, or the file system does not tell.
  bool ReadNow(int64_t offset, int64_t bytes, void* to) const;
  bool Write(int64_t offset, int64_t bytes, const void* from);

  // Begins to read the pages of [offset, offset + bytes) that are not in memory, and does not wait for them. 12 us a
  // page that is read and 0.4 for one that is there, where waiting for one page after the other takes 56 (ext4 on a
  // virtual disk of some 80,000 reads a second).
  void ReadAhead(int64_t offset, int64_t bytes) const;
  // Those of many records of one size, in any order; `offsets` is sorted, so that neighbours are one question.
  void ReadAhead(int64_t* offsets, int64_t n, int64_t bytes) const;

  // Room taken on the disk.
  int64_t bytes() const { return begin_ < 0 ? 0 : end_ - begin_; }

 private:
  explicit PageFile(int file) : file_(file) {}

  const int file_;
  int64_t begin_ = -1, end_ = -1;  // What there is room for.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_PAGE_FILE_H_
