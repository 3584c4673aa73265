// Bytes that end where a page ends, with a page behind it that nobody may read.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_GUARDED_MEMORY_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_GUARDED_MEMORY_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tf_booster::example_parser::testing {

// With a page in front that nobody may read, too; bytes that begin where a page begins are `AtStart`.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t capacity) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (capacity + page - 1) / page * page;
    mapped_ = size_ + 2 * page;
    void* memory = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    mapping_ = static_cast<uint8_t*>(memory);
    begin_ = mapping_ + page;
    if (mprotect(begin_, size_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(mapping_, mapped_); }

  const uint8_t* AtEnd(const std::string& bytes) { return Put(begin_ + size_ - bytes.size(), bytes); }
  const uint8_t* AtStart(const std::string& bytes) { return Put(begin_, bytes); }

 private:
  const uint8_t* Put(uint8_t* at, const std::string& bytes) {
    if (bytes.size() > size_) std::abort();
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    return at;
  }

  uint8_t* mapping_;
  uint8_t* begin_;
  size_t size_;
  size_t mapped_;
};

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_GUARDED_MEMORY_H_
