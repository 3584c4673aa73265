#include "cc/core/base/huge_page_pieces.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "cc/core/base/allocator.h"
#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

bool IsAll(const char* memory, size_t bytes, char value) {
  return std::all_of(memory, memory + bytes, [value](char c) { return c == value; });
}

TEST(PiecesShareAPage) {
  HugePagePieces pieces;
  void* first = pieces.Take(64 << 10);
  void* second = pieces.Take((1 << 20) + 1);
  EXPECT_EQ(pieces.pages(), 1u);
  EXPECT_EQ(static_cast<char*>(second) - static_cast<char*>(first), 64 << 10);
  void* whole = pieces.Take(kHugePage);
  EXPECT_EQ(pieces.pages(), 2u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(whole) % kHugePage, 0u);
  pieces.Give(whole, kHugePage);
  EXPECT_EQ(pieces.pages(), 1u);
  pieces.Give(first, 64 << 10);
  void* again = pieces.Take(33 << 10);  // Two units, where the first piece was.
  EXPECT_TRUE(again == first);
  pieces.Give(again, 33 << 10);
  pieces.Give(second, (1 << 20) + 1);
  EXPECT_EQ(pieces.pages(), 0u);
}

// A page without a unit left is passed by, by the smallest pieces too.
TEST(FullPagesArePassedBy) {
  HugePagePieces pieces;
  std::vector<void*> units;
  for (int i = 0; i < 130; ++i) units.push_back(pieces.Take(HugePagePieces::kUnit));
  EXPECT_EQ(pieces.pages(), 3u);
  pieces.Give(units[70], HugePagePieces::kUnit);
  EXPECT_TRUE(pieces.Take(1) == units[70]);
  for (void* unit : units) pieces.Give(unit, HugePagePieces::kUnit);
  EXPECT_EQ(pieces.pages(), 0u);
}

// Random sizes come and go in several threads; no piece is another's, and each is zero at first.
TEST(PiecesAreZeroAndTheirOwners) {
  HugePagePieces pieces;
  const auto work = [&pieces](int seed) {
    struct Block {
      char* memory;
      size_t bytes;
    };
    std::mt19937 random(seed);
    std::vector<Block> blocks;
    bool ok = true;
    const char mark = static_cast<char>(seed);
    for (int i = 0; i < 300; ++i) {
      if (random() % 2 == 0 || blocks.empty()) {
        const size_t bytes = 1 + random() % (i % 8 == 0 ? kHugePage : 200 << 10);
        blocks.push_back({static_cast<char*>(pieces.Take(bytes)), bytes});
        ok &= IsAll(blocks.back().memory, bytes, 0);
        std::memset(blocks.back().memory, mark, bytes);
      } else {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        ok &= IsAll(blocks.back().memory, blocks.back().bytes, mark);
        pieces.Give(blocks.back().memory, blocks.back().bytes);
        blocks.pop_back();
      }
    }
    for (const Block& block : blocks) pieces.Give(block.memory, block.bytes);
    return ok;
  };
  bool other = false;
  std::thread thread([&] { other = work(2); });
  EXPECT_TRUE(work(1));
  thread.join();
  EXPECT_TRUE(other);
  EXPECT_EQ(pieces.pages(), 0u);
}

TEST(HostAllocatorGivesZeroesOfEverySize) {
  for (const size_t bytes : {1u, 100u, 64u << 10, (64u << 10) + 1, 1u << 20, (2u << 20) - 1, 2u << 20, 5u << 20}) {
    for (int turn = 0; turn < 2; ++turn) {
      char* memory = static_cast<char*>(HostAllocator()->Allocate(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
      EXPECT_TRUE(IsAll(memory, bytes, 0));
      std::memset(memory, 1, bytes);
      HostAllocator()->Free(memory, bytes);
    }
  }
}

}  // namespace
}  // namespace tf_booster
