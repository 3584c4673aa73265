// The checksums behind gzip and zlib streams: CRC-32 (RFC 1952; TFRecords have another polynomial, crc32c.h) and
// Adler-32 (RFC 1950).
#ifndef TF_BOOSTER_CC_CORE_INFLATE_CHECKSUMS_H_
#define TF_BOOSTER_CC_CORE_INFLATE_CHECKSUMS_H_

#include <cstddef>
#include <cstdint>

namespace tf_booster::inflate {

// The checksum of more bytes: begins with 0, of the empty string.
uint32_t Crc32(uint32_t crc, const void* data, size_t size);
// Without vector instructions. For tests.
uint32_t ScalarCrc32(uint32_t crc, const void* data, size_t size);

// Begins with 1.
uint32_t Adler32(uint32_t adler, const void* data, size_t size);

}  // namespace tf_booster::inflate

#endif  // TF_BOOSTER_CC_CORE_INFLATE_CHECKSUMS_H_
