#include "cc/core/base/kept_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

using Block = KeptMemory::Block;

TEST(DeadBlocksAreUsedAgain) {
  KeptMemory memory;
  memory.StartBatch(1 << 20);
  const Block a = memory.Take(100 << 10), b = memory.Take(100 << 10);
  EXPECT_TRUE(a.data != b.data);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data) % KeptMemory::kAlignment, 0u);
  EXPECT_TRUE(reinterpret_cast<uintptr_t>(a.data) % 4096 != reinterpret_cast<uintptr_t>(b.data) % 4096);
  EXPECT_EQ(a.bytes, size_t{104} << 10);  // In eighths of 64 KiB.
  memory.Give(a);
  EXPECT_EQ(memory.kept(), a.bytes);
  const Block again = memory.Take(97 << 10);  // Of the same size, rounded up.
  EXPECT_EQ(again.data, a.data);
  memory.Give(b);
  const Block larger = memory.Take(105 << 10);
  EXPECT_TRUE(larger.data != b.data);
  EXPECT_TRUE(memory.Take(SIZE_MAX).data == nullptr);
  memory.Give(again);
  memory.Give(larger);
}

TEST(AsMuchIsKeptAsWasInUse) {
  KeptMemory memory;
  std::vector<Block> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(memory.Take(1 << 20));
  memory.StartBatch(1 << 20);
  for (const Block& block : blocks) memory.Give(block);
  EXPECT_EQ(memory.kept(), size_t{8} << 20);
  for (int batch = 0; batch < 2000; ++batch) memory.StartBatch(1 << 20);  // No more than one block at once now.
  EXPECT_EQ(memory.kept(), size_t{2} << 20);
}

// Blocks go from thread to thread, as tensors do: what one has written in is there until it is given back.
TEST(ABlockBelongsToOneAtATime) {
  KeptMemory memory;
  std::mutex mutex;
  std::vector<Block> handed_on;
  const auto work = [&](uint64_t seed) {
    for (int turn = 0; turn < 3000; ++turn) {
      seed = seed * 6364136223846793005 + 1442695040888963407;
      if (turn % 64 == 0) memory.StartBatch(seed >> 44);
      const Block block = memory.Take(seed >> 50);  // Up to 16 KiB.
      std::memset(block.data, static_cast<int>(block.bytes % 251), block.bytes);
      Block other;
      {
        std::lock_guard<std::mutex> lock(mutex);
        handed_on.push_back(block);
        if (handed_on.size() < 16) continue;
        std::swap(handed_on[(seed >> 32) % handed_on.size()], handed_on.back());
        other = handed_on.back();
        handed_on.pop_back();
      }
      const char expected = static_cast<char>(other.bytes % 251);
      EXPECT_TRUE(std::all_of(other.data, other.data + other.bytes, [=](char byte) { return byte == expected; }));
      memory.Give(other);
      EXPECT_TRUE(memory.kept() <= size_t{256} << 20);
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, t + 1);
  for (std::thread& thread : threads) thread.join();
  for (const Block& block : handed_on) memory.Give(block);
  for (int batch = 0; batch < 2000; ++batch) memory.StartBatch(0);
  EXPECT_EQ(memory.kept(), 0u);
}

}  // namespace
}  // namespace tf_booster
