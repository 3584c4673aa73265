// The owner of a key: the same in every process, even, and independent of the table's own hash.
#include "cc/core/hash_table/partition.h"

#include <cstdint>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

const std::vector<int64_t> kExtremes = {INT64_MIN, INT64_MIN + 1, -8, -7, -1, 0, 1, 7, 8, INT64_MAX - 1, INT64_MAX};

TEST(EveryKeyHasAnOwner) {
  for (const PartitionMode mode : {PartitionMode::kHash, PartitionMode::kMod}) {
    for (const int32_t size : {1, 2, 3, 7, 8, 128, INT32_MAX}) {
      for (const int64_t key : kExtremes) {
        const int32_t owner = OwnerOf(key, size, mode);
        EXPECT_TRUE(owner >= 0 && owner < size);
        if (size == 1) EXPECT_EQ(owner, 0);
      }
    }
  }
}

TEST(ModIsTheFloorModulo) {
  EXPECT_EQ(OwnerOf(7, 3, PartitionMode::kMod), 1);
  EXPECT_EQ(OwnerOf(-1, 3, PartitionMode::kMod), 2);
  EXPECT_EQ(OwnerOf(-3, 3, PartitionMode::kMod), 0);
  EXPECT_EQ(OwnerOf(INT64_MIN, 3, PartitionMode::kMod), 1);  // -2^63 = 1 modulo 3.
  EXPECT_EQ(OwnerOf(INT64_MAX, 8, PartitionMode::kMod), 7);
}

// The hash is part of what ranks of different builds agree on: a change of it must be seen.
TEST(HashIsFixed) {
  const std::vector<int32_t> expected = {640, 604, 430, 11, 198, 455, 511, 471, 818, 392, 475};
  std::vector<int32_t> found;
  for (const int64_t key : kExtremes) found.push_back(OwnerOf(key, 1000, PartitionMode::kHash));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i], expected[i]);
}

// Keys with a common factor, which kMod would put on one rank. 100,000 keys on 8 ranks: 12,500 each, deviation 105.
TEST(HashIsEven) {
  for (const int64_t factor : {1, 2, 8, 4096, 1 << 20}) {
    std::vector<int64_t> counts(8);
    for (int64_t i = -50000; i < 50000; ++i) ++counts[OwnerOf(i * factor, 8, PartitionMode::kHash)];
    for (const int64_t count : counts) EXPECT_TRUE(count > 12000 && count < 13000);
  }
}

// The keys of one of 16 ranks still fill all stripes and all buckets of a table, for the first fields of a fused one.
TEST(HashIsIndependentOfTheTablesHash) {
  for (const uint32_t field : {0u, 1u, 2u, 40u}) {
    std::vector<int64_t> stripes(16), buckets(16);
    int64_t owned = 0;
    for (int64_t key = 0; key < 256000; ++key) {
      if (OwnerOf(key, 16, PartitionMode::kHash) != 3) continue;
      ++owned;
      ++stripes[HashKey(key, field) >> 60];
      ++buckets[HashKey(key, field) & 15];
    }
    for (int i = 0; i < 16; ++i) {
      EXPECT_TRUE(stripes[i] > owned / 16 - 160 && stripes[i] < owned / 16 + 160);  // Deviation 31.
      EXPECT_TRUE(buckets[i] > owned / 16 - 160 && buckets[i] < owned / 16 + 160);
    }
  }
}

TEST(ModesHaveNames) {
  PartitionMode mode = PartitionMode::kHash;
  EXPECT_TRUE(ParsePartition("mod", &mode) && mode == PartitionMode::kMod);
  EXPECT_TRUE(ParsePartition("hash", &mode) && mode == PartitionMode::kHash);
  EXPECT_FALSE(ParsePartition("div", &mode));
  EXPECT_FALSE(ParsePartition("", &mode));
}

}  // namespace
}  // namespace tf_booster
