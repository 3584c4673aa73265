#include "cc/core/base/cpu_features.h"

#include <string>

#include "cc/core/base/test.h"

using namespace tf_booster;  // NOLINT

TEST(NamesGoBothWays) {
  for (int i = 0; i < 4; ++i) {
    SimdLevel level;
    EXPECT_TRUE(SimdLevelFromName(SimdLevelName(static_cast<SimdLevel>(i)), &level));
    EXPECT_EQ(static_cast<int>(level), i);
  }
  SimdLevel level;
  EXPECT_FALSE(SimdLevelFromName("avx", &level));
  EXPECT_FALSE(SimdLevelFromName("", &level));
}

TEST(LevelsIncludeTheOnesBefore) {
  EXPECT_TRUE(Runs(SimdLevel::kScalar));
  EXPECT_TRUE(Runs(BestSimdLevel()));
  const auto levels = RunnableSimdLevels();
  EXPECT_EQ(static_cast<int>(levels.front()), 0);
  for (SimdLevel level : levels) EXPECT_TRUE(Runs(level));
  EXPECT_TRUE(BestSimdLevel() <= levels.back());
}
