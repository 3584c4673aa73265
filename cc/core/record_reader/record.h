// A serialized Example on its way from file to parser.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_H_

#include <cstddef>
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

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_H_
