#include "cc/core/pooling/picked_entries.h"

#include <string>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

bool IsMinusOne(int64_t value) { return value == -1; }

struct Picked {
  std::vector<int64_t> values, indices;
};

Picked Pick(const std::vector<int64_t>& dense, const std::vector<int64_t>& dims) {
  const int64_t count = CountEntries(dense.data(), static_cast<int64_t>(dense.size()), IsMinusOne);
  Picked picked{std::vector<int64_t>(count, -7), std::vector<int64_t>(count * dims.size(), -7)};
  PickEntries(dense.data(), dims, IsMinusOne, picked.values.data(), picked.indices.data());
  return picked;
}

TEST(EntriesOfAMatrix) {
  const Picked picked = Pick({-1, 5, 0, -1, -1, -2}, {2, 3});
  EXPECT_TRUE((picked.values == std::vector<int64_t>{5, 0, -2}));
  EXPECT_TRUE((picked.indices == std::vector<int64_t>{0, 1, 0, 2, 1, 2}));
}

TEST(EntriesOfOtherRanks) {
  EXPECT_TRUE((Pick({-1, 4, 3}, {3}).indices == std::vector<int64_t>{1, 2}));
  EXPECT_TRUE((Pick({1, -1, 2, 3, -1, 4, 5, 6}, {2, 2, 2}).indices ==
               std::vector<int64_t>{0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1}));
  EXPECT_TRUE((Pick({9}, {}).values == std::vector<int64_t>{9}));
  EXPECT_TRUE(Pick({9}, {}).indices.empty());
}

TEST(NothingIsThere) {
  EXPECT_TRUE(Pick({-1, -1}, {1, 2}).values.empty());
  EXPECT_TRUE(Pick({}, {0, 4}).values.empty());
  EXPECT_TRUE(Pick({}, {3, 0}).values.empty());
  EXPECT_TRUE(Pick({}, {0, 2, 2}).indices.empty());
}

TEST(Texts) {
  const std::vector<std::string> words = {"", "a", "", "b"};
  const auto is_empty = [](const std::string& word) { return word.empty(); };
  std::vector<std::string> values(CountEntries(words.data(), 4, is_empty));
  std::vector<int64_t> indices(4);
  PickEntries(words.data(), {2, 2}, is_empty, values.data(), indices.data());
  EXPECT_TRUE((values == std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE((indices == std::vector<int64_t>{0, 1, 1, 1}));
}

}  // namespace
}  // namespace tf_booster
