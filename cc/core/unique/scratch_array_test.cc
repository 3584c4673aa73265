#include "cc/core/unique/scratch_array.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

bool AllZero(const ScratchArray<uint64_t>& array) {
  for (size_t i = 0; i < array.size(); ++i) {
    if (array[i] != 0) return false;
  }
  return true;
}

TEST(ZerosAlsoInMemoryThatWasUsed) {
  for (const size_t size : {0, 1, 1000, 131071, 131072, 262144, 1000000}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      ScratchArray<uint64_t> array(size);
      EXPECT_EQ(array.size(), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 64, 0u);
      EXPECT_TRUE(AllZero(array));
      if (size > 0) std::memset(static_cast<void*>(array.data()), 0xff, size * 8);
    }
  }
}

// Who gives a block back knows its size alone: that says whether it is the pool's.
TEST(SizesAroundThePoolsSmallestBlock) {
  for (size_t bytes = (size_t{1} << 20) - 130; bytes <= (size_t{1} << 20) + 130; ++bytes) {
    const ScratchBlock block = TakeScratch(bytes);
    EXPECT_TRUE(block.bytes >= bytes);
    if (block.bytes >= size_t{1} << 20) EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % (size_t{2} << 20), 0u);
    GiveScratch(block);
  }
}

TEST(MovesAndSwaps) {
  ScratchArray<uint64_t> a(300000), b;
  a[299999] = 5;
  b = std::move(a);
  EXPECT_EQ(b.size(), 300000u);
  EXPECT_EQ(b[299999], 5u);
  a = ScratchArray<uint64_t>(2);
  EXPECT_EQ(a[1], 0u);
}

// More than is kept, from several threads: no two arrays share memory.
TEST(ArraysAreDisjoint) {
  ThreadFor pf(4);
  pf.Run(4, 1, [](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int repeat = 0; repeat < 5; ++repeat) {
        std::vector<ScratchArray<uint64_t>> arrays;
        for (size_t k = 0; k < 8; ++k) arrays.emplace_back((k + 1) << 17);
        for (size_t k = 0; k < arrays.size(); ++k) {
          for (size_t i = 0; i < arrays[k].size(); i += 512) arrays[k][i] = t * 100 + k;
        }
        for (size_t k = 0; k < arrays.size(); ++k) {
          for (size_t i = 0; i < arrays[k].size(); i += 512) EXPECT_EQ(arrays[k][i], t * 100 + k);
        }
      }
    }
  });
}

}  // namespace
}  // namespace tf_booster
