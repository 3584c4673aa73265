#include "cc/core/inflate/checksums.h"

#include <cstdint>
#include <random>
#include <string>

#include "cc/core/base/test.h"

namespace tf_booster::inflate {
namespace {

std::string Noise(size_t size) {
  std::mt19937 random(static_cast<uint32_t>(size));
  std::string bytes(size, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// One bit at a time: obviously right.
uint32_t BitwiseCrc(const std::string& bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

TEST(KnownValues) {
  EXPECT_EQ(Crc32(0, "123456789", 9), 0xCBF43926u);
  EXPECT_EQ(Adler32(1, "Wikipedia", 9), 0x11E60398u);
}

TEST(EveryLengthByBitsAndByFolds) {
  for (size_t size = 0; size < 600; ++size) {
    const std::string bytes = Noise(size);
    EXPECT_EQ(Crc32(0, bytes.data(), size), BitwiseCrc(bytes));
    EXPECT_EQ(ScalarCrc32(0, bytes.data(), size), BitwiseCrc(bytes));
  }
}

TEST(PieceByPiece) {
  const std::string bytes = Noise(100000);
  for (const size_t cut : {0, 1, 127, 128, 5553, 65536, 99999}) {
    const char* const rest = bytes.data() + cut;
    EXPECT_EQ(Crc32(Crc32(0, bytes.data(), cut), rest, bytes.size() - cut), BitwiseCrc(bytes));
    EXPECT_EQ(Adler32(Adler32(1, bytes.data(), cut), rest, bytes.size() - cut), Adler32(1, bytes.data(), bytes.size()));
  }
}

// The sums of bytes of 255 are the largest.
TEST(AdlerDoesNotOverflow) {
  const std::string bytes(20000, '\xff');
  uint64_t a = 1, b = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    a = (a + 255) % 65521;
    b = (b + a) % 65521;
  }
  EXPECT_EQ(Adler32(1, bytes.data(), bytes.size()), static_cast<uint32_t>(b << 16 | a));
}

}  // namespace
}  // namespace tf_booster::inflate
