#include "cc/core/record_reader/line_framing.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tf_booster {
namespace {

constexpr RecordFrame kNoLine = {RecordFrame::kNeedMore, 0, 0, 0, SIZE_MAX};

// Returns how many bytes are left of `size`.
size_t WithoutReturns(char* line, size_t size) {
  auto* const first = static_cast<char*>(std::memchr(line, '\r', size));
  return first == nullptr ? size : std::remove(first, line + size, '\r') - line;
}

}  // namespace

RecordFrame NextLine(char* data, size_t available) {
  auto* const end = available == 0 ? nullptr : static_cast<char*>(std::memchr(data, '\n', available));
  if (end == nullptr) return kNoLine;
  const size_t size = end - data;
  return {RecordFrame::kRecord, 0, WithoutReturns(data, size), size + 1, 0};
}

RecordFrame LastLine(char* data, size_t available) {
  const size_t size = available == 0 ? 0 : WithoutReturns(data, available);
  return size == 0 ? kNoLine : RecordFrame{RecordFrame::kRecord, 0, size, available, 0};
}

}  // namespace tf_booster
