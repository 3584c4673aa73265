#include "cc/core/record_reader/record_block.h"

#include <memory>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

constexpr size_t kMostFree = 1 << 20, kBytes = 64 << 10;
using Block = std::shared_ptr<RecordBlock>;

Block TakeFilled(BlockPool* pool, size_t slot) {
  Block block = pool->Take(slot);
  EXPECT_TRUE(block->buffer.Grow(kBytes, 0));
  return block;
}

TEST(AProcessorTakesTheBlocksThatItHad) {
  const auto pool = std::make_shared<BlockPool>(kMostFree);
  Block of_one = TakeFilled(pool.get(), 1), of_two = TakeFilled(pool.get(), 2);
  const RecordBlock *const one = of_one.get(), *const two = of_two.get();
  of_one.reset();
  of_two.reset();  // The last one given back, whoever gives it.
  EXPECT_EQ(pool->Take(1).get(), one);
  EXPECT_EQ(pool->Take(2).get(), two);
  EXPECT_EQ(pool->Take(1).get(), one);
}

TEST(AnotherProcessorsBlocksAreTakenWhereManyAreUnused) {
  const auto pool = std::make_shared<BlockPool>(kMostFree);
  std::vector<Block> blocks;
  for (size_t i = 0; i < kMostFree / 4 / kBytes; ++i) blocks.push_back(TakeFilled(pool.get(), 1));
  const RecordBlock* const last = blocks.back().get();
  while (blocks.size() > 1) blocks.erase(blocks.begin());
  Block fresh = pool->Take(2);  // Less than a quarter is unused.
  EXPECT_EQ(fresh->buffer.capacity(), size_t{0});
  blocks.clear();
  Block moved = pool->Take(2);
  EXPECT_EQ(moved.get(), last);
  moved.reset();
  EXPECT_TRUE(pool->Take(1).get() != last);
  EXPECT_EQ(pool->Take(2).get(), last);  // Its own now.
}

TEST(WhatIsUsedAgainIsEmptyAndNotTooMuchIsKept) {
  const auto pool = std::make_shared<BlockPool>(kBytes);
  Block block = TakeFilled(pool.get(), 0), other = TakeFilled(pool.get(), 0);
  block->records.push_back({1, 2, 3});
  block->last = true;
  block->end = Status(StatusCode::kDataLoss, "damaged");
  block->held_by_batch = 7;
  const RecordBlock* const kept = block.get();
  block.reset();
  other.reset();  // There is no room for it.
  block = pool->Take(0);
  EXPECT_EQ(block.get(), kept);
  EXPECT_TRUE(block->records.empty() && !block->last && block->end.ok() && block->held_by_batch == 0);
  EXPECT_EQ(pool->Take(0)->buffer.capacity(), size_t{0});
}

}  // namespace
}  // namespace tf_booster
