#include "cc/core/hash_table/missing_from.h"

#include <algorithm>
#include <random>
#include <set>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

std::vector<int64_t> Sorted(std::vector<int64_t> keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

TEST(FindsWhatASetFinds) {
  std::mt19937_64 random(3);
  ThreadFor pf(3);
  for (const int64_t size : {0, 1, 5, 1000, 20000, 300000}) {
    for (const int64_t other : {0, 1, 700, 200000}) {
      std::vector<int64_t> all, some;
      // A range in which some are in both, whole 64 bits, and the ends of the range.
      const auto draw = [&] {
        const uint64_t r = random();
        return r % 4 == 0 ? static_cast<int64_t>(random()) : static_cast<int64_t>(r >> 8) % (2 * size + 5) - size;
      };
      for (int64_t i = 0; i < size; ++i) all.push_back(draw());
      for (int64_t i = 0; i < other; ++i) some.push_back(draw());
      if (size > 1) all[0] = INT64_MIN, all[1] = INT64_MAX;
      if (other > 1) some[0] = INT64_MAX, some[1] = INT64_MIN;
      const std::set<int64_t> set(all.begin(), all.end());
      std::vector<int64_t> wanted;
      for (const int64_t key : some) {
        if (set.count(key) == 0) wanted.push_back(key);
      }
      EXPECT_TRUE(Sorted(MissingFrom(all, some, pf)) == Sorted(wanted));
      EXPECT_TRUE(MissingFrom(some, some, pf).empty());
    }
  }
}

}  // namespace
}  // namespace tf_booster
