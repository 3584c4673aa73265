// Unique comes here with half a million values only; these are few, so that a slow obvious reference can look at each.
#include "cc/core/unique/partitioned_unique.h"

#include <cstdint>
#include <limits>
#include <random>
#include <unordered_map>
#include <vector>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/unique/place_table.h"
#include "cc/core/unique/unique.h"

namespace tf_booster {
namespace {

template <class T, class Index, bool kCounts>
void CheckWith(const std::vector<T>& x, int64_t likely, int threads, int64_t first) {
  ThreadFor pf(threads);
  PartitionedUnique<T, kCounts> unique(x.data(), static_cast<int64_t>(x.size()), likely, &pf);
  std::vector<T> values(unique.size());
  std::vector<int64_t> counts(unique.size());
  std::vector<Index> idx(x.size(), -7);
  unique.Write(first, idx.data(), values.data(), kCounts ? counts.data() : nullptr);
  std::unordered_map<T, int64_t> places;
  for (const T value : values) places.emplace(value, static_cast<int64_t>(places.size()));
  EXPECT_EQ(places.size(), values.size());
  std::vector<int64_t> expected_counts(values.size());
  int64_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto place = places.find(x[i]);
    wrong += place == places.end() || idx[i] != first + place->second;
    if (place != places.end()) ++expected_counts[place->second];
  }
  EXPECT_EQ(wrong, 0);
  // Each value occurs in x.
  for (const int64_t count : expected_counts) wrong += count == 0;
  EXPECT_EQ(wrong, 0);
  if (kCounts) EXPECT_TRUE(counts == expected_counts);
}

template <class T>
void Check(const std::vector<T>& x) {
  const int64_t n = static_cast<int64_t>(x.size());
  CheckWith<T, int32_t, false>(x, n, 1, 0);
  CheckWith<T, int32_t, true>(x, n / 8, 2, 5);
  CheckWith<T, int64_t, true>(x, 1, 5, (int64_t{3} << 40) + 1);
}

// What a table makes of one partition: the slots of x, then their places, the values and how often they occur.
template <class T>
std::vector<int64_t> Numbered(const std::vector<T>& x, SimdLevel level) {
  const int64_t n = static_cast<int64_t>(x.size());
  PlaceTable<T, true> table(4096, level);
  table.Clear();
  EXPECT_TRUE(table.HasRoom(n));
  std::vector<uint32_t> places(n), occurrences(n + 8);
  table.Add(x.data(), n, 0, places.data());
  std::vector<int64_t> all(places.begin(), places.end());
  std::vector<T> distinct(n + 8);
  table.Number(distinct.data(), occurrences.data());
  table.PlacesOfSlots(places.data(), n);
  all.insert(all.end(), places.begin(), places.end());
  all.insert(all.end(), distinct.begin(), distinct.begin() + table.size());
  all.insert(all.end(), occurrences.begin(), occurrences.begin() + table.size());
  return all;
}

// Values enough to fill buckets up to the last slot, and once more those that came last.
TEST(EveryLevelNumbersAlike) {
  std::mt19937_64 random(3);
  std::vector<int64_t> wide(6000);
  for (int64_t i = 0; i < 4000; ++i) wide[i] = static_cast<int64_t>(random());
  for (int64_t i = 0; i < 1000; ++i) wide[i] = i % 2 == 0 ? i : i << 32;  // Values that differ in one half only.
  for (int64_t i = 4000; i < 6000; ++i) wide[i] = wide[2000 + random() % 2000];
  const std::vector<int32_t> narrow(wide.begin(), wide.end());
  for (const SimdLevel level : RunnableSimdLevels()) {
    EXPECT_TRUE(Numbered(wide, level) == Numbered(wide, SimdLevel::kScalar));
    EXPECT_TRUE(Numbered(narrow, level) == Numbered(narrow, SimdLevel::kScalar));
  }
}

// Around the end of a line, of a chunk and of two.
TEST(SizesAtBoundaries) {
  for (const int64_t n : {1, 2, 7, 8, 9, 63, 64, 65, 19999, 20000, 20001, 39999, 40001, 70001}) {
    std::vector<int64_t> distinct(n), few(n);
    std::vector<int32_t> narrow(n);
    for (int64_t i = 0; i < n; ++i) {
      distinct[i] = i - n / 2;
      few[i] = i * i % 97;
      narrow[i] = static_cast<int32_t>(i * 2654435761u);
    }
    Check(distinct);
    Check(few);
    Check(narrow);
  }
}

TEST(EveryValueIsAValue) {
  using L = std::numeric_limits<int64_t>;
  using I = std::numeric_limits<int32_t>;
  Check<int64_t>({0, -1, L::min(), L::max(), 1, L::min(), 0, -1, L::max(), L::max() - 1});
  Check<int32_t>({0, -1, I::min(), I::max(), 1, I::min(), 0, -1, I::max(), I::max() - 1});
}

TEST(PatternsOfBits) {
  for (const int shift : {0, 8, 24, 31, 32, 44}) {
    std::vector<int64_t> x;
    for (int64_t i = 0; i < 50000; ++i) x.push_back(static_cast<int64_t>(static_cast<uint64_t>(i % 33333) << shift));
    Check(x);
  }
}

// Four partitions are meant; all values are of one, whose table must grow after it has numbered some of them.
TEST(AllOfOnePartition) {
  std::vector<int64_t> x;
  for (int64_t value = 0; x.size() < 100000; ++value) {
    if (PartitionHash(value) >> 30 == 2) x.push_back(value);
  }
  for (int64_t i = 0; i < 30000; ++i) x.push_back(x[i * 3]);
  Check(x);
}

// Values of one bucket and the same hash: each is told from the others by its value alone.
TEST(AllColliding) {
  // The hash is linear, so what two values of one hash differ in may be added to any value.
  std::unordered_map<uint32_t, int64_t> seen;
  std::vector<int64_t> kernel;
  std::mt19937_64 random(1);
  while (kernel.size() < 5) {
    const int64_t value = static_cast<int64_t>(random());
    const auto [other, is_new] = seen.try_emplace(PartitionHash(value), value);
    if (!is_new && other->second != value) kernel.push_back(other->second ^ value);
  }
  std::vector<int64_t> x;
  for (int64_t i = 0; i < 4000; ++i) {
    int64_t value = 12345;
    for (int bit = 0; bit < 5; ++bit) value ^= (i >> bit & 1) != 0 ? kernel[bit] : 0;
    x.push_back(value);
    EXPECT_EQ(PartitionHash(value), PartitionHash(int64_t{12345}));
  }
  Check(x);
}

TEST(SameBitsOnAnyNumberOfThreads) {
  std::mt19937_64 random(2);
  std::vector<int64_t> x(200000);
  for (int64_t& v : x) v = static_cast<int64_t>(random() % 50000);
  std::vector<std::vector<int64_t>> values;
  for (const int threads : {1, 2, 7}) {
    ThreadFor pf(threads);
    PartitionedUnique<int64_t, false> unique(x.data(), static_cast<int64_t>(x.size()), 30000, &pf);
    std::vector<int32_t> idx(x.size());
    unique.Write(0, idx.data(), values.emplace_back(unique.size()).data(), nullptr);
    EXPECT_TRUE(values.back() == values.front());
  }
}

template <class Index>
void CheckUnique(const std::vector<int64_t>& x, bool in_order, size_t expected) {
  UniqueOptions options;
  options.in_order = in_order;
  std::vector<int64_t> values;
  std::vector<Index> idx(x.size());
  ThreadFor pf(2);
  const auto allocate = [&](int64_t size, int64_t** data, int64_t**) {
    values.resize(size);
    *data = values.data();
    return Status();
  };
  EXPECT_OK((Unique<int64_t, Index>(x.data(), static_cast<int64_t>(x.size()), options, idx.data(), allocate, pf)));
  EXPECT_EQ(values.size(), expected);
  int64_t wrong = 0, seen = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    wrong += values[idx[i]] != x[i];
    if (!in_order) continue;
    wrong += idx[i] > seen;
    seen += idx[i] == seen;
  }
  EXPECT_EQ(wrong, 0);
}

// Enough values for Unique to come here by itself, unless they are few after all or their order is asked for.
TEST(ManyThroughUnique) {
  std::vector<int64_t> many(1 << 19), few(1 << 19);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i] = static_cast<int64_t>(i % 300000 * 0x9e3779b97f4a7c15u);
    few[i] = static_cast<int64_t>(i % 1000);
  }
  CheckUnique<int32_t>(many, false, 300000);
  CheckUnique<int64_t>(many, true, 300000);
  CheckUnique<int32_t>(few, false, 1000);
}

}  // namespace
}  // namespace tf_booster
