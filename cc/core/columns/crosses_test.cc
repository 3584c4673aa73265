#include "cc/core/columns/crosses.h"

#include <limits>
#include <random>
#include <utility>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

using Rows = std::vector<std::vector<uint64_t>>;

// The fingerprint of two as its description has it, step by step.
uint64_t Slow(uint64_t first, uint64_t second) {
  const uint64_t factor = 14313749767032793493ULL;
  uint64_t result = first ^ factor;
  uint64_t other = second * factor;
  other ^= other >> 47;
  result ^= other * factor;
  result *= factor;
  result ^= result >> 47;
  result *= factor;
  result ^= result >> 47;
  return result;
}

struct Wanted {
  std::vector<int64_t> indices, values;
  int64_t most = 0;
};

// All combinations, by counting up like a milometer.
Wanted Reference(const std::vector<Rows>& keys, uint64_t hash_key, uint64_t buckets) {
  Wanted wanted;
  for (size_t row = 0; row < keys[0].size(); ++row) {
    std::vector<size_t> at(keys.size(), 0);
    bool more = true;
    for (const Rows& key : keys) more = more && !key[row].empty();
    int64_t place = 0;
    while (more) {
      uint64_t hash = hash_key;
      for (size_t k = 0; k < keys.size(); ++k) hash = Slow(hash, keys[k][row][at[k]]);
      wanted.indices.push_back(static_cast<int64_t>(row));
      wanted.indices.push_back(place++);
      wanted.values.push_back(static_cast<int64_t>(hash % buckets));
      size_t k = keys.size();
      for (; k > 0; --k) {
        if (++at[k - 1] < keys[k - 1][row].size()) break;
        at[k - 1] = 0;
      }
      more = k > 0;
    }
    wanted.most = std::max(wanted.most, place);
  }
  return wanted;
}

struct Held {
  std::vector<uint64_t> values;
  std::vector<int64_t> starts = {0};
};

Held Flat(const Rows& rows) {
  Held held;
  for (const auto& row : rows) {
    held.values.insert(held.values.end(), row.begin(), row.end());
    held.starts.push_back(static_cast<int64_t>(held.values.size()));
  }
  return held;
}

// `even`: of keys of which each row has as many, whether they are given so.
void Check(const std::vector<std::vector<Rows>>& crosses, const std::vector<std::vector<bool>>& even, int64_t buckets,
           ParallelFor& pf) {
  std::vector<std::vector<Held>> held(crosses.size());
  std::vector<Cross> all(crosses.size());
  std::vector<std::vector<int64_t>> indices(crosses.size()), values(crosses.size());
  for (size_t c = 0; c < crosses.size(); ++c) {
    for (const Rows& rows : crosses[c]) held[c].push_back(Flat(rows));
    Cross& cross = all[c];
    cross.rows = static_cast<int64_t>(crosses[c][0].size());
    cross.hash_key = 0xDECAFCAFFEULL + c;
    cross.buckets = buckets;
    for (size_t k = 0; k < crosses[c].size(); ++k) {
      const Held& key = held[c][k];
      const int64_t of_row = cross.rows == 0 ? 1 : static_cast<int64_t>(crosses[c][k][0].size());
      cross.keys.push_back({key.values.data(), of_row, even[c][k] ? nullptr : key.starts.data()});
    }
    EXPECT_TRUE(CountCrosses(&cross));
    indices[c].assign(2 * cross.total + 1, -7);
    values[c].assign(cross.total + 1, -7);
    cross.indices = indices[c].data();
    cross.values = values[c].data();
  }
  WriteCrosses(all, pf);
  for (size_t c = 0; c < crosses.size(); ++c) {
    const uint64_t of = static_cast<uint64_t>(buckets > 0 ? buckets : std::numeric_limits<int64_t>::max());
    Wanted wanted = Reference(crosses[c], all[c].hash_key, of);
    EXPECT_EQ(all[c].of_row, wanted.most);
    EXPECT_EQ(all[c].total, static_cast<int64_t>(wanted.values.size()));
    wanted.indices.push_back(-7);  // Nothing behind the end is written.
    wanted.values.push_back(-7);
    EXPECT_TRUE(indices[c] == wanted.indices);
    EXPECT_TRUE(values[c] == wanted.values);
  }
}

TEST(OneOfEach) {
  SerialFor pf;
  Check({{{{1}, {2}, {~0ULL}}, {{7}, {0}, {1ULL << 63}}}}, {{true, true}}, 10, pf);
  Check({{{{1}, {2}, {3}}, {{7}, {8}, {9}}}}, {{false, true}}, 10, pf);
  Check({{{{5}, {6}}}}, {{true}}, 1, pf);
}

TEST(Many) {
  SerialFor pf;
  Check({{{{1, 2}, {3, 4}}, {{5, 6, 7}, {8, 9, 10}}, {{1}, {2}}}}, {{true, true, true}}, 0, pf);
  Check({{{{1, 2}, {}, {3}}, {{5, 6, 7}, {8}, {}}, {{1}, {2}, {4}}}}, {{false, false, true}}, 97, pf);
  Check({{{{}, {}}, {{1}, {2}}}}, {{true, true}}, 97, pf);
}

TEST(NoRows) {
  SerialFor pf;
  Check({{{}, {}}}, {{true, false}}, 5, pf);
  Check({{{}, {}}, {{{1}}, {{2}}}}, {{false, true}, {true, true}}, 5, pf);
}

TEST(RandomOnesOnSeveralThreads) {
  std::mt19937_64 rng(3);
  ThreadFor pf(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<Rows>> crosses(1 + rng() % 5);
    std::vector<std::vector<bool>> even(crosses.size());
    for (size_t c = 0; c < crosses.size(); ++c) {
      const size_t rows = rng() % 5 == 0 ? 0 : rng() % 1500;
      for (size_t k = 0; k <= rng() % 3; ++k) {
        const bool is_even = rng() % 2 == 0;
        const size_t of_row = rng() % 4;
        Rows made(rows);
        for (auto& row : made) {
          row.resize(is_even ? of_row : rng() % 4);
          for (uint64_t& value : row) value = rng() % 3 == 0 ? rng() % 4 : rng();
        }
        crosses[c].push_back(std::move(made));
        even[c].push_back(is_even && (rows > 0 || of_row == 1));
      }
    }
    Check(crosses, even, static_cast<int64_t>(rng() % 3 == 0 ? 0 : 1 + rng() % 1000), pf);
  }
}

TEST(TooMany) {
  const std::vector<int64_t> starts = {0, int64_t{1} << 32, int64_t{1} << 33};
  Cross cross;
  cross.rows = 2;
  cross.keys = {{nullptr, 0, starts.data()}, {nullptr, 0, starts.data()}};
  EXPECT_TRUE(!CountCrosses(&cross));  // 2^64 results of a row.
  cross.keys = {{nullptr, int64_t{1} << 31, nullptr}, {nullptr, int64_t{1} << 31, nullptr}};
  EXPECT_TRUE(!CountCrosses(&cross));  // 2^62 of each row.
  cross.keys[1].of_row = 1 << 15;
  EXPECT_TRUE(!CountCrosses(&cross));  // 2^46 of each row.
  cross.keys[1].of_row = 1 << 14;
  EXPECT_TRUE(CountCrosses(&cross));
  EXPECT_EQ(cross.total, kMostResults);
  cross.keys.push_back({nullptr, 0, nullptr});
  EXPECT_TRUE(CountCrosses(&cross));
  EXPECT_EQ(cross.total, 0);
}

}  // namespace
}  // namespace tf_booster
