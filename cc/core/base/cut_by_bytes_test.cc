#include "cc/core/base/cut_by_bytes.h"

#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

std::vector<size_t> Cut(const std::vector<size_t>& sizes, size_t pieces) {
  size_t bytes = 0;
  for (const size_t size : sizes) bytes += size;
  return CutByBytes(sizes.size(), bytes, pieces, [&](size_t i) { return sizes[i]; });
}

using Bounds = std::vector<size_t>;

TEST(EqualItemsAreCutIntoEqualPieces) {
  EXPECT_TRUE(Cut(std::vector<size_t>(12, 100), 4) == Bounds({0, 3, 6, 9, 12}));
  EXPECT_TRUE(Cut(std::vector<size_t>(12, 100), 1) == Bounds({0, 12}));
  EXPECT_TRUE(Cut(std::vector<size_t>(3, 7), 3) == Bounds({0, 1, 2, 3}));
  EXPECT_TRUE(Cut(std::vector<size_t>(6, 0), 3) == Bounds({0, 2, 4, 6}));
}

TEST(BytesCountAndNotItems) {
  std::vector<size_t> sizes(100, 10);
  for (size_t i = 0; i < 10; ++i) sizes[i] = 1000;
  const Bounds bounds = Cut(sizes, 2);
  EXPECT_TRUE(bounds == Bounds({0, 6, 100}));
}

TEST(NoPieceIsEmpty) {
  EXPECT_TRUE(Cut({}, 4) == Bounds({0}));
  EXPECT_TRUE(Cut({5}, 4) == Bounds({0, 1}));
  EXPECT_TRUE(Cut({1, 1, 10000, 1, 1}, 4) == Bounds({0, 3, 5}));
  EXPECT_TRUE(Cut({10000, 1, 1}, 2) == Bounds({0, 1, 3}));
}

TEST(AllIsCoveredInOrder) {
  for (size_t n = 1; n < 60; ++n) {
    for (size_t pieces = 1; pieces < 12; ++pieces) {
      std::vector<size_t> sizes;
      for (size_t i = 0; i < n; ++i) sizes.push_back(i * 7919 % 97);
      const Bounds bounds = Cut(sizes, pieces);
      EXPECT_EQ(bounds.front(), 0u);
      EXPECT_EQ(bounds.back(), n);
      EXPECT_TRUE(bounds.size() <= pieces + 1);
      for (size_t i = 1; i < bounds.size(); ++i) EXPECT_TRUE(bounds[i - 1] < bounds[i]);
    }
  }
}

}  // namespace
}  // namespace tf_booster
