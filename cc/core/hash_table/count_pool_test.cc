#include "cc/core/hash_table/count_pool.h"

#include <algorithm>
#include <new>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

constexpr int64_t kGreatest = CountPool::kGreatest;

TEST(SmallCountsTakeNoPlace) {
  CountPool pool;
  uint32_t word = 0;
  for (const int64_t value : {int64_t{5}, kGreatest, int64_t{0}}) {
    pool.Write(value, &word);
    EXPECT_EQ(pool.Read(word), value);
  }
  EXPECT_EQ(pool.bytes(), 0);
}

// Words of several threads go up and down; never more than the places are above 31 bits at once.
TEST(PlacesComeBack) {
  constexpr int64_t kWords = 64;
  CountPool pool;
  pool.Reserve(kWords);
  const int64_t bytes = pool.bytes();
  std::vector<uint32_t> words(kWords);
  std::vector<int64_t> values(kWords);
  ThreadFor pf(4);
  for (int round = 0; round < 50; ++round) {
    pf.Run(kWords, 1000000, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t random = Mix64(round * kWords + i);
        values[i] = random % 2 == 0 ? static_cast<int64_t>(random >> 34) : kGreatest + 1 + (random >> 2);
        pool.Write(values[i], &words[i]);
      }
    });
    bool equal = true;
    for (int64_t i = 0; i < kWords; ++i) equal &= pool.Read(words[i]) == values[i];
    EXPECT_TRUE(equal);
    if (round == 25) pool.Reserve(kWords + 1);  // Moves the counts.
  }
  EXPECT_TRUE(pool.bytes() > bytes);
  pool.Clear();
  EXPECT_EQ(pool.bytes(), 0);
}

TEST(MoreThanPlacesHaveNumbersIsNoMemory) {
  CountPool pool;
  bool refused = false;
  try {
    pool.Reserve(kGreatest + 2);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  EXPECT_TRUE(refused);
}

TEST(KeysComeBackFromTheirHashes) {
  bool equal = true;
  for (const int64_t key : {int64_t{0}, int64_t{1}, int64_t{-1}, INT64_MAX, INT64_MIN, int64_t{123456789012345}}) {
    for (const uint32_t field : {0u, 1u, 77u, 0xFFFFFFFEu}) equal &= KeyOfHash(HashKey(key, field), field) == key;
  }
  EXPECT_TRUE(equal);
}

}  // namespace
}  // namespace tf_booster
