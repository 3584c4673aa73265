// CRC-32C (Castagnoli), as TFRecord files have it: over a record's length, and over its bytes.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace tf_booster {

enum class CrcLevel {
  kScalar,  // Tables, 8 bytes a step: about 2 GB/s.
  kSse42,  // The crc32 instruction on three lanes at once, joined by carry-less multiplications: about 8 bytes a cycle.
};

// The best level that this machine runs.
CrcLevel BestCrcLevel();

// The CRC-32C of data[0, size). Needs no alignment; nothing beyond the last byte is read.
uint32_t Crc32c(const void* data, size_t size);
// The same, at a level that this machine must be able to run.
uint32_t Crc32c(const void* data, size_t size, CrcLevel level);

// TFRecord stores CRCs rotated and shifted, so that a file of records within a record does not have CRCs of CRCs.
inline uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_H_
