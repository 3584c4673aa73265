// Memory that one rank writes and the other ranks of its host read: a file without a name, which lives as long as a
// process has it open, so that a killed job leaves nothing behind.
#ifndef TF_BOOSTER_CC_CORE_HOST_RANKS_SHARED_MEMORY_H_
#define TF_BOOSTER_CC_CORE_HOST_RANKS_SHARED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "cc/core/base/status.h"

namespace tf_booster {

// A part of the file in this process's memory.
class MappedPart {
 public:
  MappedPart() = default;
  MappedPart(MappedPart&& other) noexcept { *this = std::move(other); }
  MappedPart& operator=(MappedPart&& other) noexcept;
  ~MappedPart();

  char* data() const { return data_; }
  int64_t offset() const { return offset_; }
  int64_t size() const { return size_; }

 private:
  friend class SharedMemory;
  char* data_ = nullptr;
  int64_t offset_ = 0, size_ = 0;
};

class SharedMemory {
 public:
  // Of this process; empty.
  static Status Create(std::unique_ptr<SharedMemory>* memory);
  // Another process's, by its address(). NotFound: there is none, or this process may not read it.
  static Status Open(const std::string& address, std::unique_ptr<SharedMemory>* memory);
  ~SharedMemory();

  // Where other processes of this host find it, as text without spaces.
  std::string address() const;
  int32_t process() const { return process_; }

  // Appends `size` bytes, zeros; a multiple of the page's size. ResourceExhausted: there are not so many.
  Status Append(int64_t size, MappedPart* part);
  // Gives the memory of a part back; its place in the file is not used again.
  void Discard(MappedPart part);
  // Maps a part that its owner has appended.
  Status Map(int64_t offset, int64_t size, MappedPart* part) const;

 private:
  SharedMemory(int file, int32_t process) : file_(file), process_(process) {}
  const int file_;
  const int32_t process_;
  int64_t end_ = 0;
};

inline constexpr int64_t kPage = 4096;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HOST_RANKS_SHARED_MEMORY_H_
