#include "cc/core/hash_table/bucket_match.h"

#include <random>

#include "cc/core/base/test.h"
#include "cc/core/hash_table/probing.h"

namespace tf_booster {
namespace {

// Buckets of every mixture of live, empty and erased entries, with few keys and fields, so that they meet: key 0 of
// field 0 looks like fresh memory.
TEST(MatchesLiveEntriesOnly) {
  std::mt19937_64 random(1);
  const auto key = [&] { return static_cast<int64_t>(random() % 3) - 1; };
  const auto field = [&] { return static_cast<uint32_t>(random() % 2); };
  const uint32_t states[] = {kEmpty, kTombstone, kFirstRow, kMaxRow, kPendingFlag, ~uint32_t{0}};
  int64_t hits = 0, wrong = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    alignas(64) IndexEntry bucket[4] = {};
    const int64_t wanted_key = key() * (turn % 2 == 0 ? 1 : int64_t{1} << 40);
    const uint32_t wanted_field = field();
    uint32_t expected_hits = 0, expected_empty = 0;
    for (int i = 0; i < 4; ++i) {
      IndexEntry& entry = bucket[i];
      entry.state = states[random() % 6];
      if (entry.state != kEmpty || random() % 2 == 0) entry.key = key() * (turn % 3 == 0 ? 1 : int64_t{1} << 40);
      if (IsLive(entry.state)) entry.field = field();
      if (entry.state == kTombstone) entry.field = kNoField;
      const bool hit = entry.key == wanted_key && entry.field == wanted_field && IsLive(entry.state);
      if (hit && expected_hits != 0) entry.key = 77;  // A key is once in a bucket.
      if (hit && expected_hits == 0) expected_hits = 1u << 4 * i;
      if (entry.state == kEmpty) ++expected_empty;
    }
    const BucketMatch match = MatchBucket<4>(bucket, wanted_key, wanted_field);
    wrong += match.hits != expected_hits || (match.empty != 0) != (expected_empty != 0);
    hits += expected_hits != 0;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(hits > 1000);
}

// A key that is erased and enters again at another place of its bucket is found there.
TEST(ErasedEntriesMatchNothing) {
  alignas(64) IndexEntry entries[8] = {};
  const IndexRef index = {entries, 1};
  for (int i = 0; i < 4; ++i) entries[i] = {i, 0, kFirstRow + static_cast<uint32_t>(i)};
  EXPECT_TRUE(!VacateEntry<4>(index, &entries[2]));  // The bucket is full: a tombstone.
  EXPECT_TRUE(!VacateEntry<4>(index, &entries[1]));
  uint32_t state = 0;
  EXPECT_TRUE(!StateInBucket<4>(FirstBucket<4>(index, 0), 2, 0, &state));
  EXPECT_TRUE(FindEntry<4>(index, 0, 2, 0) == nullptr);
  *FindVacancy<4>(index, 0) = {2, 0, 99};
  EXPECT_TRUE(StateInBucket<4>(FirstBucket<4>(index, 0), 2, 0, &state));
  EXPECT_EQ(state, 99u);
  EXPECT_TRUE(FindEntry<4>(index, 0, 2, 0) == &entries[1]);
  // What went on to the second bucket is for the whole probe only.
  entries[2] = {9, 0, 98};
  *FindVacancy<4>(index, 0) = {5, 0, 97};
  EXPECT_TRUE(!StateInBucket<4>(FirstBucket<4>(index, 0), 5, 0, &state));
  EXPECT_EQ(state, kEmpty);
  EXPECT_TRUE(FindEntry<4>(index, 0, 5, 0) == &entries[4]);
  // An empty entry ends a probe.
  EXPECT_TRUE(StateInBucket<4>(FirstBucket<4>(index, 1), 6, 0, &state));
  EXPECT_EQ(state, kEmpty);
}

}  // namespace
}  // namespace tf_booster
