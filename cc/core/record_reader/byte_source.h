// The bytes of a file one after another, as RecordFile reads them: plain or uncompressed on the way, from whatever file
// system. Errors may have any code; they reach the caller as they are.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_BYTE_SOURCE_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cc/core/base/status.h"

namespace tf_booster {

// One thread at a time.
class ByteSource {
 public:
  // Codes that only reading has, as absl::StatusCode counts: the wait for a block was given up; the file ends.
  static constexpr StatusCode kCancelled = static_cast<StatusCode>(1);
  static constexpr StatusCode kOutOfRange = static_cast<StatusCode>(11);

  virtual ~ByteSource() = default;

  // Reads up to `n` bytes to `to`; `*got` fewer only where the file ends or fails. kOutOfRange: the file ends behind
  // them. Other errors: it cannot be read further, the `*got` bytes are good.
  virtual Status Read(size_t n, char* to, size_t* got) = 0;

  // Goes on at byte `offset`, not before the present place. Bytes of compressed files are read to get there.
  virtual Status Skip(uint64_t offset) = 0;
};

// Any thread may call, several at once.
using OpenByteSource = std::function<Status(const std::string& name, std::unique_ptr<ByteSource>* source)>;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_BYTE_SOURCE_H_
