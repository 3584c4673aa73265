#include "cc/core/record_reader/crc32c.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/testing/guarded_memory.h"

namespace tf_booster {
namespace {

// One bit at a time: obviously right.
uint32_t BitwiseCrc(const uint8_t* p, size_t size) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= p[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

std::vector<uint8_t> Noise(size_t size) {
  std::vector<uint8_t> bytes(size);
  uint64_t x = 88172645463325252u;
  for (uint8_t& byte : bytes) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    byte = static_cast<uint8_t>(x >> 32);
  }
  return bytes;
}

// RFC 3720, B.4.
TEST(KnownValues) {
  std::string zeros(32, '\0'), ones(32, '\xff'), up(32, '\0');
  for (int i = 0; i < 32; ++i) up[i] = static_cast<char>(i);
  for (const CrcLevel level : RunnableCrcLevels()) {
    EXPECT_EQ(Crc32c(zeros.data(), 32, level), 0x8a9136aau);
    EXPECT_EQ(Crc32c(ones.data(), 32, level), 0x62a8ab43u);
    EXPECT_EQ(Crc32c(up.data(), 32, level), 0x46dd794eu);
    EXPECT_EQ(Crc32c("123456789", 9, level), 0xe3069283u);
    EXPECT_EQ(Crc32c(nullptr, 0, level), 0u);
  }
}

TEST(EveryLengthAtEveryAlignment) {
  const std::vector<uint8_t> bytes = Noise(700);
  for (size_t size = 0; size + 8 <= bytes.size(); ++size) {
    for (size_t start = 0; start < 8; start += size < 100 ? 1 : 3) {
      const uint32_t wanted = BitwiseCrc(bytes.data() + start, size);
      for (const CrcLevel level : RunnableCrcLevels()) EXPECT_EQ(Crc32c(bytes.data() + start, size, level), wanted);
    }
  }
}

// Several blocks of the largest lanes, and what is left of them.
TEST(LongInputs) {
  const std::vector<uint8_t> bytes = Noise(20000);
  for (size_t size : {3071u, 3072u, 3073u, 3167u, 3168u, 6144u, 9215u, 9999u, 20000u}) {
    const uint32_t wanted = BitwiseCrc(bytes.data(), size);
    for (const CrcLevel level : RunnableCrcLevels()) EXPECT_EQ(Crc32c(bytes.data(), size, level), wanted);
  }
}

TEST(NothingAroundTheBytesIsRead) {
  example_parser::testing::GuardedMemory memory(4096);
  const std::vector<uint8_t> noise = Noise(600);
  for (size_t size = 1; size < noise.size(); ++size) {
    const std::string bytes(noise.begin(), noise.begin() + size);
    const uint32_t wanted = BitwiseCrc(noise.data(), size);
    for (const CrcLevel level : RunnableCrcLevels()) {
      EXPECT_EQ(Crc32c(memory.AtStart(bytes), size, level), wanted);
      EXPECT_EQ(Crc32c(memory.AtEnd(bytes), size, level), wanted);
    }
  }
}

TEST(MaskIsTensorFlows) {
  // A record of 0 bytes: the masked CRC of eight zeros, as TFRecordWriter writes it.
  const uint64_t length = 0;
  EXPECT_EQ(MaskCrc(Crc32c(&length, sizeof(length))), MaskCrc(0x8c28b28au));
  EXPECT_EQ(MaskCrc(0u), 0xa282ead8u);
}

}  // namespace
}  // namespace tf_booster
