// Files of records in memory, for tests: read in short pieces, and broken off with an error where a test wants it.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_MEMORY_FILES_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_MEMORY_FILES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "cc/core/record_reader/byte_source.h"
#include "cc/core/record_reader/crc32c.h"

namespace tf_booster {

// TFRecord's framing of `bytes`, as record_framing.h describes it.
inline void AppendRecord(const std::string& bytes, std::string* file) {
  const auto append = [&](uint64_t number, size_t size) { file->append(reinterpret_cast<const char*>(&number), size); };
  const auto crc = [&](const char* data, size_t size) { append(MaskCrc(Crc32c(data, size)), 4); };
  const uint64_t length = bytes.size();
  append(length, 8);
  crc(reinterpret_cast<const char*>(&length), 8);
  file->append(bytes);
  crc(bytes.data(), bytes.size());
}

class MemoryFiles {
 public:
  static constexpr size_t kNoError = SIZE_MAX;

  // Reading fails with Internal at byte `error_at`.
  void Add(const std::string& name, std::string content, size_t error_at = kNoError) {
    files_[name] = {std::move(content), error_at};
  }

  // The files outlive what it opens.
  OpenByteSource Open() const {
    return [this](const std::string& name, std::unique_ptr<ByteSource>* source) {
      const auto file = files_.find(name);
      if (file == files_.end()) return Status(StatusCode::kNotFound, "no file " + name);
      *source = std::make_unique<Source>(&file->second);
      return Status();
    };
  }

 private:
  struct File {
    std::string content;
    size_t error_at;
  };

  class Source final : public ByteSource {
   public:
    explicit Source(const File* file) : file_(file) {}

    Status Read(size_t n, char* to, size_t* got) override {
      const size_t end = std::min(file_->content.size(), file_->error_at);
      *got = std::min(n, end - std::min(end, at_));
      std::memcpy(to, file_->content.data() + at_, *got);
      at_ += *got;
      if (*got == n) return Status();
      if (file_->error_at != kNoError) return {StatusCode::kInternal, "the disk is gone"};
      return {kOutOfRange, "end"};
    }

    Status Skip(uint64_t offset) override {
      at_ = offset;
      return Status();
    }

   private:
    const File* const file_;
    size_t at_ = 0;
  };

  std::map<std::string, File> files_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_MEMORY_FILES_H_
