#include "cc/core/padding/row_bucket.h"

#include <set>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

TEST(BucketsArePowersOfTwoAndMidwayBetween) {
  std::set<int64_t> found;
  for (int64_t rows = 0; rows <= 2048; ++rows) found.insert(RowBucket(rows));
  EXPECT_TRUE(found == (std::set<int64_t>{32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}));
}

TEST(ABucketIsTheLeastThatHolds) {
  int64_t before = RowBucket(0);
  for (int64_t rows = 1; rows <= 20000; ++rows) {
    const int64_t bucket = RowBucket(rows);
    EXPECT_TRUE(bucket >= rows);
    // It changes where the one before is full, and not earlier.
    EXPECT_TRUE(bucket == before || rows == before + 1);
    before = bucket;
  }
}

TEST(AtMostAThirdIsPadding) {
  double padded = 0, real = 0;
  for (int64_t rows = 33; rows <= 65536; ++rows) {
    const int64_t bucket = RowBucket(rows);
    EXPECT_TRUE(3 * (bucket - rows) < bucket);
    padded += static_cast<double>(bucket), real += static_cast<double>(rows);
  }
  EXPECT_TRUE(1 - real / padded < 1.0 / 7);
}

TEST(LargeNumbersDoNotOverflow) {
  EXPECT_EQ(RowBucket(int64_t{1} << 61), int64_t{1} << 61);
  EXPECT_EQ(RowBucket((int64_t{1} << 60) + 1), (int64_t{1} << 60) / 2 * 3);
}

}  // namespace
}  // namespace tf_booster
