// A serialized Example on its way from file to parser.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_H_

#include <cstddef>
#include <cstring>
#include <memory>

#include "cc/core/record_reader/record_block.h"

namespace tf_booster {

// Its bytes lie in a block of the file, or in memory of its own.
struct Record {
  const char* data = nullptr;
  size_t size = 0;
  const std::shared_ptr<RecordBlock>* block = nullptr;  // Valid until the next record is asked for.
  std::unique_ptr<char[]> owned;
};

// A copy in memory of its own.
inline std::unique_ptr<char[]> OwnedCopy(const char* data, size_t size) {
  std::unique_ptr<char[]> copy(new char[size]);
  if (size > 0) std::memcpy(copy.get(), data, size);
  return copy;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_H_
