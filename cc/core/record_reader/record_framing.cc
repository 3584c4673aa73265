#include "cc/core/record_reader/record_framing.h"

#include <cstring>
#include <limits>
#include <string>

#include "cc/core/record_reader/crc32c.h"

namespace tf_booster {
namespace {

template <class T>
T Load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

}  // namespace

RecordFrame NextRecord(const char* data, size_t available, bool verify_bytes) {
  if (available < kRecordHeader) return {RecordFrame::kNeedMore, 0, 0, 0, kRecordHeader};
  const uint64_t length = Load<uint64_t>(data);
  if (MaskCrc(Crc32c(data, sizeof(length))) != Load<uint32_t>(data + sizeof(length)) ||
      length > std::numeric_limits<size_t>::max() - kRecordHeader - kRecordFooter) {
    return {RecordFrame::kCorrupt, 0, 0, 0, 0};
  }
  const size_t size = static_cast<size_t>(length);
  const size_t next = kRecordHeader + size + kRecordFooter;
  if (available < next) return {RecordFrame::kNeedMore, 0, 0, 0, next};
  const char* const bytes = data + kRecordHeader;
  if (verify_bytes && MaskCrc(Crc32c(bytes, size)) != Load<uint32_t>(bytes + size)) {
    return {RecordFrame::kCorrupt, 0, 0, 0, 0};
  }
  return {RecordFrame::kRecord, kRecordHeader, size, next, 0};
}

Status EndOfRecords(uint64_t offset, size_t available) {
  if (available < kRecordHeader) return {};
  return {StatusCode::kDataLoss, "truncated record at byte " + std::to_string(offset) + ": the file ends " +
                                     std::to_string(available) +
                                     " bytes later, within it; write the file again, or remove it"};
}

Status CorruptRecord(uint64_t offset) {
  return {StatusCode::kDataLoss,
          "corrupted record at byte " + std::to_string(offset) +
              ": a checksum is wrong; the file is damaged, is no TFRecord file, or is compressed "
              "in another way than compression says"};
}

}  // namespace tf_booster
