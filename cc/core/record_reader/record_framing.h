// TFRecord's framing over bytes in memory. A record is
//
//   uint64 length | uint32 masked CRC-32C of the length | length bytes | uint32 masked CRC-32C of the bytes
//
// with little-endian numbers. The reader of the file brings bytes; this says where the records are, or how many bytes
// more it needs. Nothing here allocates, so a length field alone costs no memory: a caller that is told `needed` bytes
// should grow its buffer as bytes arrive.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_FRAMING_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_FRAMING_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/status.h"

namespace tf_booster {

// A length and its CRC; and the CRC behind the bytes.
constexpr size_t kRecordHeader = 12;
constexpr size_t kRecordFooter = 4;

// What NextRecord, or NextLine, found at the start of the bytes it was given.
struct RecordFrame {
  enum Kind {
    kRecord,    // data[start, start + size) are its bytes; the next one begins at `next`.
    kNeedMore,  // The record is longer than what is here: `needed` bytes in all, as far as can be told.
    kCorrupt,   // A CRC that is not that of its bytes, or a length that no file can have.
  };
  Kind kind;
  size_t start;   // kRecord.
  size_t size;    // kRecord.
  size_t next;    // kRecord.
  size_t needed;  // kNeedMore: more than the bytes that are here.
};

// Looks at the record that begins at data[0]; `available` bytes are there. The CRC of the length is always checked, as
// it guards memory; that of the bytes if `verify_bytes`.
RecordFrame NextRecord(const char* data, size_t available, bool verify_bytes);

// What TensorFlow's reader answers for a file that ends, or goes wrong, at a record that begins at byte `offset`:
// `available` bytes of it are there and no more will come. OK for a clean end, and for an end within the header, which
// TensorFlow takes for the end of the file too (tests/data compares every truncation). Else DataLoss.
Status EndOfRecords(uint64_t offset, size_t available);
// DataLoss for kCorrupt.
Status CorruptRecord(uint64_t offset);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_FRAMING_H_
