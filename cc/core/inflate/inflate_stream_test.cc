#include "cc/core/inflate/inflate_stream.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "cc/core/base/test.h"
#include "cc/core/inflate/checksums.h"
#include "cc/core/inflate/testing/random_deflate.h"

namespace tf_booster::inflate {
namespace {

using Format = InflateStream::Format;

std::string Little(uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof(value)); }

std::string Gzip(const RandomDeflate& random, uint8_t flags = 0, const std::string& fields = "") {
  const char begin[] = {'\x1f', '\x8b', 8, static_cast<char>(flags), 0, 0, 0, 0, 0, 3};
  return std::string(begin, sizeof(begin)) + fields + random.stream +
         Little(ScalarCrc32(0, random.text.data(), random.text.size())) +
         Little(static_cast<uint32_t>(random.text.size()));
}

struct Uncompressed {
  std::string text;
  bool odd = false;
};

// `piece`: asked for at once. `block`: that the file gives at once.
Uncompressed Uncompress(const std::string& file, Format format = Format::kGzip, size_t piece = 10000,
                        size_t block = 1 << 20) {
  size_t at = 0;
  InflateStream stream(format, [&](size_t n, char* to, size_t* got) {
    *got = std::min({n, block, file.size() - at});
    std::memcpy(to, file.data() + at, *got);
    at += *got;
    return true;
  });
  Uncompressed result;
  std::string bytes(piece, 0);
  for (size_t got = piece; got == piece;) {
    got = stream.Read(piece, bytes.data());
    result.text.append(bytes, 0, got);
  }
  result.odd = stream.odd();
  return result;
}

TEST(RandomStreams) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    RandomDeflate random(seed);
    random.Write(seed % 20 == 19 ? 1500000 : seed * 100);
    const Uncompressed got = Uncompress(Gzip(random), Format::kGzip, seed % 3 == 0 ? 1000 : 300000, 1 + seed * 500);
    EXPECT_TRUE(got.text == random.text);
    EXPECT_FALSE(got.odd);
  }
}

TEST(Zlib) {
  RandomDeflate random(1);
  random.Write(5000);
  const uint32_t adler = __builtin_bswap32(Adler32(1, random.text.data(), random.text.size()));
  const Uncompressed got = Uncompress("\x78\x9c" + random.stream + Little(adler), Format::kZlib);
  EXPECT_TRUE(got.text == random.text);
  EXPECT_FALSE(got.odd);
  EXPECT_TRUE(Uncompress("\x78\x9c" + random.stream + Little(adler + 1), Format::kZlib).odd);
}

TEST(HeadersWithFields) {
  RandomDeflate random(2);
  random.Write(100);
  using std::string_literals::operator""s;
  EXPECT_TRUE(Uncompress(Gzip(random, 8, "name\0"s)).text == random.text);
  EXPECT_TRUE(Uncompress(Gzip(random, 16, "comment\0"s)).text == random.text);
  EXPECT_TRUE(Uncompress(Gzip(random, 4 | 8 | 16, "\3\0abcname\0comment\0"s)).text == random.text);
  EXPECT_TRUE(Uncompress(Gzip(random, 2, "ab")).odd);
  EXPECT_TRUE(Uncompress(Gzip(random, 8, std::string(1 << 20, 'a'))).odd);
}

// Odd, and nothing is handed out before kHeldBack more bytes are known to be good.
TEST(CutAnywhere) {
  RandomDeflate random(3);
  random.Write(300);
  const std::string file = Gzip(random);
  for (size_t size = 0; size < file.size(); size += 3) {
    const Uncompressed got = Uncompress(file.substr(0, size));
    EXPECT_TRUE(got.odd);
    EXPECT_EQ(got.text.size(), size_t{0});
  }
  EXPECT_TRUE(Uncompress(file + '\0').odd);
  EXPECT_TRUE(Uncompress(file + file).odd);
}

// The checksum finds what the format does not.
TEST(DamagedAnywhere) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    RandomDeflate random(seed);
    random.Write(100);
    const std::string file = Gzip(random);
    for (size_t bit = 8 * 10; bit < 8 * file.size(); bit += 13) {
      std::string damaged = file;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      const Uncompressed got = Uncompress(damaged);
      // A bit that is passed over: before a stored block.
      EXPECT_TRUE(got.odd || got.text == random.text);
    }
  }
}

TEST(HoldsBackBeforeDamage) {
  RandomDeflate random(4);
  random.Write(2000000);
  std::string file = Gzip(random);
  file[file.size() - 1] = static_cast<char>(file[file.size() - 1] ^ 1);
  const Uncompressed got = Uncompress(file);
  EXPECT_TRUE(got.odd);
  EXPECT_TRUE(got.text == random.text.substr(0, got.text.size()));
  EXPECT_TRUE(got.text.size() + InflateStream::kHeldBack <= random.text.size());
  EXPECT_TRUE(got.text.size() > 1000000);
}

TEST(FileThatCannotBeRead) {
  InflateStream stream(Format::kGzip, [](size_t, char*, size_t*) { return false; });
  char byte;
  EXPECT_EQ(stream.Read(1, &byte), size_t{0});
  EXPECT_TRUE(stream.odd());
}

}  // namespace
}  // namespace tf_booster::inflate
