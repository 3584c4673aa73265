#include "cc/core/hash_table/striped_index.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/core/base/allocator.h"
#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

// Stripes that are equally full grow one after another, the first of them at the greatest load.
TEST(StripesGrowOneAfterAnother) {
  constexpr int64_t kKeys = 16 * 7500;
  for (const int percent : {80, 95}) {
    StripedIndex index(HostAllocator(), 4, percent);
    const auto hash_of = [](int64_t i) {
      return static_cast<uint64_t>(i % kStripes) << 60 | Mix64(static_cast<uint64_t>(i)) >> 4;
    };
    std::vector<int64_t> grown;  // Keys of a stripe when it grew from 4096 entries to 8192.
    for (int64_t i = 0; i < kKeys; ++i) {
      const int stripe = static_cast<int>(i % kStripes);
      const int64_t before = index.stripe_capacity(stripe);
      EXPECT_TRUE(index.PrepareGrowth(stripe, 1));
      index.CommitGrowth(stripe);
      if (before == 4096 && index.stripe_capacity(stripe) > before) grown.push_back(i / kStripes);
      index.Insert(hash_of(i), KeyOfHash(hash_of(i), 0), 0, kFirstRow + static_cast<uint32_t>(i));
    }
    EXPECT_EQ(grown.size(), size_t{kStripes});
    EXPECT_EQ(grown.back(), int64_t{4096} * percent / 100);
    for (size_t s = 1; s < grown.size(); ++s) {
      const int64_t apart = grown[s] - grown[s - 1];
      EXPECT_TRUE(apart >= 16 && apart <= 17);  // 0.4 % of 4096.
    }
    bool found = true;
    for (int64_t i = 0; i < kKeys; ++i) {
      found &= index.StateOf(hash_of(i), KeyOfHash(hash_of(i), 0), 0) == kFirstRow + i;
    }
    EXPECT_TRUE(found);
  }
}

}  // namespace
}  // namespace tf_booster
