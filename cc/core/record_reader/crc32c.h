// CRC-32C (Castagnoli), as TFRecord files have it: over a record's length, and over its bytes.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tf_booster {

enum class CrcLevel {
  kScalar,  // Tables, 8 bytes a step: about 2 GB/s.
  kSse42,  // The crc32 instruction on three lanes at once, joined by carry-less multiplications: about 8 bytes a cycle.
  kAvx512,  // Carry-less multiplications of 64 bytes at once (VPCLMULQDQ).
};

// The levels that this machine runs, the best one at the end.
std::vector<CrcLevel> RunnableCrcLevels();

// The CRC-32C of data[0, size). Needs no alignment; nothing beyond the last byte is read.
uint32_t Crc32c(const void* data, size_t size);
// The same, at a level that this machine must be able to run.
uint32_t Crc32c(const void* data, size_t size, CrcLevel level);

// TFRecord stores CRCs rotated and shifted, so that a file of records within a record does not have CRCs of CRCs.
inline uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_H_
