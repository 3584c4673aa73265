// Packed varints at every level: every width, every place in a block, wrong ones, and memory that ends.
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/testing/guarded_memory.h"
#include "cc/core/example_parser/testing/wire_builder.h"

using namespace tf_booster;                           // NOLINT
using namespace tf_booster::example_parser;           // NOLINT
using namespace tf_booster::example_parser::testing;  // NOLINT

namespace {

constexpr int64_t kUntouched = 0x5a5a5a5a5a5a5a5a;

struct Decoded {
  bool ok;
  std::vector<int64_t> values;
  bool operator==(const Decoded& other) const { return ok == other.ok && values == other.values; }
};
std::ostream& operator<<(std::ostream& out, const Decoded& decoded) {
  out << (decoded.ok ? "{" : "refused {");
  for (int64_t value : decoded.values) out << value << " ";
  return out << "}";
}

// With the bytes at the end of a page, and room for exactly `capacity` values.
Decoded Decode(SimdLevel level, const std::string& bytes, size_t capacity, size_t readable_behind = 0) {
  static GuardedMemory memory(1 << 16);
  const uint8_t* p = memory.AtEnd(bytes + std::string(readable_behind, '\xff'));
  Decoded decoded;
  decoded.values.assign(capacity + 1, kUntouched);
  size_t count = 0;
  decoded.ok = ScanFor(level).decode_varints(p, bytes.size(), p + bytes.size() + readable_behind, decoded.values.data(),
                                             capacity, &count);
  EXPECT_EQ(decoded.values[capacity], kUntouched);
  decoded.values.resize(decoded.ok ? count : 0);
  return decoded;
}

// The largest, the smallest and a random value of so many bytes.
std::vector<uint64_t> ValuesOf(int width, std::mt19937_64* random) {
  const uint64_t low = width == 1 ? 0 : uint64_t{1} << (7 * (width - 1));
  const uint64_t high = width == 10 ? ~uint64_t{0} : (uint64_t{1} << (7 * width)) - 1;
  return {low, high, low + (*random)() % (high - low)};
}

}  // namespace

TEST(EveryWidthAtEveryPlaceInABlock) {
  std::mt19937_64 random(1);
  for (SimdLevel level : RunnableSimdLevels()) {
    for (int width = 1; width <= 10; ++width) {
      for (uint64_t value : ValuesOf(width, &random)) {
        for (size_t before = 0; before <= 140; ++before) {
          for (size_t behind : {size_t{0}, size_t{1}, size_t{70}}) {
            std::vector<int64_t> values(before, 5);
            values.push_back(static_cast<int64_t>(value));
            values.insert(values.end(), behind, 6);
            const Decoded wanted{true, values};
            EXPECT_TRUE(Decode(level, PackedVarints(values), values.size(), before % 90) == wanted);
          }
        }
      }
    }
  }
}

TEST(RandomWidths) {
  std::mt19937_64 random(2);
  for (SimdLevel level : RunnableSimdLevels()) {
    for (int i = 0; i < 3000; ++i) {
      std::vector<int64_t> values(random() % 200);
      const int widest = 1 + static_cast<int>(random() % 64);
      for (int64_t& value : values) value = static_cast<int64_t>(random() >> (64 - widest) >> random() % widest);
      EXPECT_EQ(Decode(level, PackedVarints(values), values.size() + i % 3, i % 100), (Decoded{true, values}));
    }
  }
}

// Levels that shuffle four short ones at a time have a table with all of these.
TEST(EveryFourOfUpToFourBytes) {
  for (SimdLevel level : RunnableSimdLevels()) {
    for (int widths = 0; widths < 256; ++widths) {
      std::vector<int64_t> values;
      for (int i = 0; i < 4; ++i) values.push_back((int64_t{0x0a0b0c0d} + i) >> (7 * (widths >> 2 * i & 3)));
      for (size_t before : {0, 3, 61}) {
        for (size_t behind : {0, 1, 2, 5}) {
          std::vector<int64_t> all(before, 1);
          all.insert(all.end(), values.begin(), values.end());
          all.insert(all.end(), behind, 300);
          EXPECT_EQ(Decode(level, PackedVarints(all), all.size(), 90), (Decoded{true, all}));
        }
      }
    }
  }
}

// Bytes 0x80 that add nothing, as a writer may leave them.
TEST(PaddedVarints) {
  for (SimdLevel level : RunnableSimdLevels()) {
    for (size_t before = 0; before < 70; ++before) {
      for (int padding = 1; padding <= 9; ++padding) {
        std::string bytes = std::string(before, '\1') + Varint(3, padding) + Varint(0, padding) + "\x07";
        std::vector<int64_t> values(before, 1);
        values.insert(values.end(), {3, 0, 7});
        EXPECT_EQ(Decode(level, bytes, values.size()), (Decoded{true, values}));
      }
    }
  }
}

TEST(OfATenthByteOnlyTheLowestBitCounts) {
  for (SimdLevel level : RunnableSimdLevels()) {
    for (int last = 0; last < 128; ++last) {
      const std::string nine(9, '\xff');
      const int64_t wanted = last & 1 ? -1 : INT64_MAX;
      EXPECT_EQ(Decode(level, "\x01" + nine + static_cast<char>(last) + "\x02", 3), (Decoded{true, {1, wanted, 2}}));
    }
  }
}

TEST(ElevenBytesAreRefused) {
  for (SimdLevel level : RunnableSimdLevels()) {
    for (size_t before = 0; before < 140; ++before) {
      for (size_t size = 10; size < 80; size += before < 70 ? 1 : 7) {
        const std::string bytes =
            std::string(before, '\1') + std::string(size, '\x80') + "\x01" + std::string(30, '\2');
        EXPECT_FALSE(Decode(level, bytes, 400).ok);
      }
    }
  }
}

TEST(CutOffVarintsAreRefused) {
  for (SimdLevel level : RunnableSimdLevels()) {
    for (size_t before = 0; before < 140; ++before) {
      for (int size = 1; size < 10; ++size) {
        // Whatever stands behind the list.
        EXPECT_FALSE(Decode(level, std::string(before, '\1') + std::string(size, '\x80'), 400).ok);
        EXPECT_FALSE(Decode(level, std::string(before, '\1') + std::string(size, '\x80'), 400, 90).ok);
      }
    }
  }
}

TEST(MoreThanThereIsRoomForAreRefused) {
  for (SimdLevel level : RunnableSimdLevels()) {
    for (size_t count = 1; count < 150; ++count) {
      for (const char* one : {"\x07", "\x80\x01", "\xff\xff\xff\x01"}) {
        std::string bytes;
        for (size_t i = 0; i < count; ++i) bytes += one;
        EXPECT_FALSE(Decode(level, bytes, count - 1, count).ok);
        EXPECT_EQ(Decode(level, bytes, count, count).values.size(), count);
      }
    }
  }
}

TEST(RoomForLongListsIsCounted) {
  std::string bytes;
  for (int i = 0; i < 2003; ++i) bytes += Varint(~uint64_t{0} >> (i % 64));
  EXPECT_EQ(VarintRoom(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 2003u);
  EXPECT_EQ(VarintRoom(reinterpret_cast<const uint8_t*>(bytes.data()), 30), 30u);
}
