#include "cc/core/unique/unique_by_field.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

using Pair = std::pair<uint32_t, int64_t>;

struct Result {
  std::vector<int64_t> ids, counts;
  std::vector<uint32_t> fields;
  std::vector<std::vector<int64_t>> idx;
};

Result Run(const std::vector<std::pair<uint32_t, std::vector<int64_t>>>& arrays, int64_t first, int threads,
           bool skip_missing = false) {
  Result result;
  std::vector<FieldIds> refs;
  for (const auto& [field, ids] : arrays) result.idx.emplace_back(ids.size(), -1);
  for (size_t a = 0; a < arrays.size(); ++a) {
    const std::vector<int64_t>& ids = arrays[a].second;
    refs.push_back({ids.data(), static_cast<int64_t>(ids.size()), arrays[a].first, result.idx[a].data(), skip_missing});
  }
  ThreadFor pf(threads);
  EXPECT_OK(UniqueByField(
      refs, first, /*with_counts=*/true,
      [&](int64_t u, DistinctPairs* out) {
        result.ids.resize(u);
        result.fields.resize(u);
        result.counts.resize(u);
        *out = {result.ids.data(), result.fields.data(), result.counts.data()};
        return Status();
      },
      pf));
  return result;
}

void Check(const std::vector<std::pair<uint32_t, std::vector<int64_t>>>& arrays, int threads) {
  for (const int64_t first : {int64_t{0}, int64_t{1}, (int64_t{5} << 40) + 1}) {
    const Result result = Run(arrays, first, threads);
    std::map<Pair, int64_t> counts;
    std::vector<uint32_t> order;  // Of fields, by their first array.
    bool right = true;
    for (size_t a = 0; a < arrays.size(); ++a) {
      const auto& [field, ids] = arrays[a];
      for (size_t i = 0; i < ids.size(); ++i) {
        const size_t place = static_cast<size_t>(result.idx[a][i] - first);
        right &= place < result.ids.size() && result.ids[place] == ids[i] && result.fields[place] == field;
        if (counts[{field, ids[i]}]++ == 0 && (order.empty() || order.back() != field)) order.push_back(field);
      }
    }
    EXPECT_TRUE(right);
    EXPECT_EQ(result.ids.size(), counts.size());
    std::set<uint32_t> finished;
    for (size_t place = 0; right && place < result.ids.size(); ++place) {
      EXPECT_EQ(result.counts[place], (counts[{result.fields[place], result.ids[place]}]));
      if (place > 0 && result.fields[place] != result.fields[place - 1]) {
        EXPECT_TRUE(finished.insert(result.fields[place - 1]).second);
      }
      EXPECT_TRUE(finished.count(result.fields[place]) == 0);
    }
  }
}

std::vector<int64_t> RandomIds(int64_t n, int64_t range, int seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int64_t>(random() % range) - range / 2);
  return ids;
}

TEST(IdsOfTwoFieldsNeverMeet) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> extremes = {0, -1, kMin, kMax, 1, kMin + 1, kMax - 1, -1, kMin};
  for (const int threads : {1, 3}) {
    Check({{0, extremes}, {7, extremes}, {1, extremes}, {0xFFFFFFFEu, extremes}}, threads);
  }
}

// As the arrays without them, with -1 where they stood.
TEST(MissingIdsAreNone) {
  const std::vector<std::vector<std::pair<uint32_t, std::vector<int64_t>>>> cases = {
      {{4, {5, -1, 5, -2, -1, 9}}},
      {{4, {-1, -1}}},
      {{4, {5, -1}}, {6, {-1, -1, 5}}, {4, {5, 7, -1}}, {8, {1, 2}}},
      {{1, RandomIds(50000, 40, 1)}, {2, RandomIds(300, 9, 2)}},
  };
  for (const auto& arrays : cases) {
    for (const int64_t first : {int64_t{0}, (int64_t{5} << 40) + 1}) {
      auto kept = arrays;
      for (auto& [field, ids] : kept) ids.erase(std::remove(ids.begin(), ids.end(), -1), ids.end());
      const Result result = Run(arrays, first, 2, true), wanted = Run(kept, first, 2);
      EXPECT_TRUE(result.ids == wanted.ids && result.fields == wanted.fields && result.counts == wanted.counts);
      for (size_t a = 0; a < arrays.size(); ++a) {
        auto next = wanted.idx[a].begin();
        for (size_t i = 0; i < result.idx[a].size(); ++i) {
          EXPECT_EQ(result.idx[a][i], arrays[a].second[i] == -1 ? -1 : *next++);
        }
      }
    }
  }
}

TEST(ArraysOfOneFieldAreDeduplicatedTogether) {
  for (const int threads : {1, 4}) {
    Check({{3, {1, 2, 2}}, {5, {2, 9}}, {3, {2, 4}}, {3, {}}, {5, {9}}}, threads);
  }
}

TEST(ManySmallFieldsAndLargeOnes) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::pair<uint32_t, std::vector<int64_t>>> arrays;
    for (int f = 0; f < 60; ++f) arrays.push_back({static_cast<uint32_t>(f % 50), RandomIds(f * 37 % 900, 300, f)});
    Check(arrays, threads);
    arrays.push_back({99, RandomIds(70000, 50000, 1)});
    arrays.push_back({4, RandomIds(40000, 1000, 2)});
    Check(arrays, threads);
    Check({{2, RandomIds(70000, 90000, 3)}}, threads);
  }
}

TEST(NothingToDo) {
  Check({}, 2);
  Check({{4, {}}}, 2);
  Check({{4, {}}, {5, {}}, {4, {}}}, 2);
}

TEST(ErrorsOfAllocateArePassedOn) {
  const int64_t id = 5;
  int64_t idx;
  SerialFor pf;
  const auto refuse = [](int64_t, DistinctPairs*) { return Status(StatusCode::kInternal, "no"); };
  EXPECT_EQ(UniqueByField({{&id, 1, 0, &idx}}, 0, true, refuse, pf).message(), std::string("no"));
  EXPECT_EQ(UniqueByField({{&id, 1, 0, &idx}, {&id, 1, 1, &idx}}, 0, true, refuse, pf).message(), std::string("no"));
}

TEST(CountsNeedNotBeWanted) {
  const int64_t ids[] = {5, 6, 5}, others[] = {7, 5};
  int64_t idx[3], other_idx[2], distinct[4];
  uint32_t fields[4];
  int64_t size = 0;
  SerialFor pf;
  const auto allocate = [&](int64_t u, DistinctPairs* out) {
    size = u;
    *out = {distinct, fields, nullptr};
    return Status();
  };
  EXPECT_OK(UniqueByField({{ids, 3, 8, idx}}, 0, /*with_counts=*/false, allocate, pf));
  EXPECT_EQ(size, 2);
  EXPECT_EQ(distinct[idx[1]], 6);
  EXPECT_EQ(fields[0] + fields[1], 16u);
  for (const uint32_t other_field : {8u, 9u}) {
    EXPECT_OK(
        UniqueByField({{ids, 3, 8, idx}, {others, 2, other_field, other_idx}}, 1, /*with_counts=*/false, allocate, pf));
    EXPECT_EQ(size, other_field == 8 ? 3 : 4);
    EXPECT_EQ(distinct[other_idx[0] - 1], 7);
    EXPECT_EQ(fields[other_idx[0] - 1], other_field);
    EXPECT_EQ(idx[0] == other_idx[1], other_field == 8);
  }
}

}  // namespace
}  // namespace tf_booster
