#include "cc/core/unique/unique.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/unique/distinct_set.h"

namespace tf_booster {
namespace {

template <class T, class Index>
struct Result {
  std::vector<T> values;
  std::vector<int64_t> counts;
  std::vector<Index> idx;
};

template <class T, class Index>
Result<T, Index> Run(const std::vector<T>& x, bool with_counts, int threads, int64_t first = 0) {
  Result<T, Index> result;
  result.idx.assign(x.size(), -7);
  UniqueOptions options;
  options.first = first;
  options.with_counts = with_counts;
  ThreadFor pf(threads);
  int calls = 0;
  EXPECT_OK((Unique<T, Index>(
      x.data(), static_cast<int64_t>(x.size()), options, result.idx.data(),
      [&](int64_t u, T** values, int64_t** counts) {
        ++calls;
        result.values.resize(u);
        *values = result.values.data();
        if (with_counts) {
          result.counts.resize(u);
          *counts = result.counts.data();
        }
        return Status();
      },
      pf)));
  EXPECT_EQ(calls, 1);
  return result;
}

// Without maps and sets, whose nodes took nearly all of this test's time under ThreadSanitizer.
template <class T, class Index>
void Check(const std::vector<T>& x) {
  std::vector<T> distinct = x;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const bool with_counts : {false, true}) {
    for (const int threads : {1, 2, 5}) {
      for (const int64_t first : {int64_t{0}, sizeof(Index) == 8 ? (int64_t{3} << 40) + 1 : int64_t{5}}) {
        const auto result = Run<T, Index>(x, with_counts, threads, first);
        // As many values as are distinct, and each of x among them: none is there twice.
        EXPECT_EQ(result.values.size(), distinct.size());
        std::vector<int64_t> counts(result.values.size());
        int64_t wrong = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          const int64_t place = result.idx[i] - first;
          if (place < 0 || place >= static_cast<int64_t>(result.values.size()) || result.values[place] != x[i]) {
            ++wrong;
          } else {
            ++counts[place];
          }
        }
        EXPECT_EQ(wrong, 0);
        EXPECT_TRUE(!with_counts || result.counts == counts);
      }
    }
  }
}

template <class T>
void CheckBoth(const std::vector<T>& x) {
  Check<T, int32_t>(x);
  Check<T, int64_t>(x);
}

TEST(SmallInputs) {
  CheckBoth<int64_t>({});
  CheckBoth<int32_t>({});
  CheckBoth<int64_t>({0});
  CheckBoth<int32_t>({0, 0, 0});
  CheckBoth<int64_t>({5, -1, 5, 0, -1, 7, 0});
}

TEST(EveryValueIsAValue) {
  using L = std::numeric_limits<int64_t>;
  using I = std::numeric_limits<int32_t>;
  CheckBoth<int64_t>({0, -1, L::min(), L::max(), 1, L::min(), 0, -1, L::max(), L::max() - 1});
  CheckBoth<int32_t>({0, -1, I::min(), I::max(), 1, I::min(), 0, -1, I::max(), I::max() - 1});
}

// Sizes around the blocks, the first table's growth and the division among threads.
TEST(SizesAtBoundaries) {
  for (const int64_t n :
       {15, 16, 17, 255, 256, 257, 1023, 1024, 1025, 10239, 10241, 32767, 32768, 32769, 65536, 70001}) {
    std::vector<int64_t> distinct(n), few(n);
    std::vector<int32_t> distinct32(n);
    for (int64_t i = 0; i < n; ++i) {
      distinct[i] = i - n / 2;
      distinct32[i] = static_cast<int32_t>(i * 2654435761u);
      few[i] = i * i % 97;
    }
    Check<int64_t, int32_t>(distinct);
    Check<int32_t, int32_t>(distinct32);
    Check<int64_t, int64_t>(few);
  }
}

TEST(PatternsOfBits) {
  for (const int shift : {0, 8, 16, 24, 31, 32, 40, 47, 56}) {
    std::vector<int64_t> x;
    for (int64_t i = 0; i < 40000; ++i) x.push_back(static_cast<int64_t>(static_cast<uint64_t>(i % 33333) << shift));
    Check<int64_t, int32_t>(x);
    std::vector<int32_t> y;
    for (int64_t i = 0; i < 40000; ++i)
      y.push_back(static_cast<int32_t>(static_cast<uint32_t>(i % 33333) << (shift % 32)));
    Check<int32_t, int32_t>(y);
  }
}

// Distinct values that start out in one bucket, with one tag: each is told from the others by its value alone.
TEST(AllColliding) {
  // UniqueTag is the high half of a bijection; its inverse makes values of one tag.
  const auto inverse = [](uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  };
  const uint64_t inverse1 = inverse(0x9e3779b97f4a7c15u), inverse2 = inverse(0xd6e8feb86659fd93u);
  std::vector<int64_t> x;
  for (uint64_t i = 0; i < 3000; ++i) {
    uint64_t h = ((uint64_t{0xabcdef01} << 32) | (i % 2000)) * inverse2;
    h ^= h >> 32;
    x.push_back(static_cast<int64_t>(h * inverse1));
    EXPECT_EQ(UniqueTag(x.back()), 0xabcdef01u);
  }
  Check<int64_t, int32_t>(x);
  x.resize(256);  // Of few values, too.
  Check<int64_t, int32_t>(x);
}

TEST(RandomAgainstMap) {
  std::mt19937_64 random(1);
  for (const uint64_t range : {10u, 1000u, 100000u, 4000000000u}) {
    std::vector<int64_t> x;
    for (int i = 0; i < 70000; ++i) x.push_back(static_cast<int64_t>(random() % range) - 5);
    Check<int64_t, int64_t>(x);
    const std::vector<int32_t> y(x.begin(), x.end());
    Check<int32_t, int64_t>(y);
  }
}

// Values close together are numbered by an array, those eight times as far apart as there are values are not.
TEST(ValuesCloseTogether) {
  std::mt19937_64 random(3);
  for (const int64_t n : {257, 300, 5000, 32767}) {
    for (const int64_t range : {int64_t{1}, n / 3, 8 * n - 1, 8 * n, 8 * n + 1}) {
      for (const int64_t least : {int64_t{0}, -range / 2, std::numeric_limits<int64_t>::min(),
                                  std::numeric_limits<int64_t>::max() - range + 1}) {
        std::vector<int64_t> x = {least, least + (range - 1)};
        while (static_cast<int64_t>(x.size()) < n) x.push_back(least + static_cast<int64_t>(random() % range));
        const auto result = Run<int64_t, int32_t>(x, true, 1, 5);
        std::map<int64_t, int64_t> place, count;
        std::vector<int64_t> values;
        int64_t wrong = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          if (place.emplace(x[i], static_cast<int64_t>(values.size())).second) values.push_back(x[i]);
          wrong += result.idx[i] != 5 + place[x[i]];
          ++count[x[i]];
        }
        EXPECT_EQ(wrong, 0);
        EXPECT_TRUE(result.values == values);
        for (size_t k = 0; k < values.size(); ++k) wrong += result.counts[k] != count[values[k]];
        EXPECT_EQ(wrong, 0);
      }
    }
  }
  std::vector<int32_t> x(1000);
  for (int32_t& v : x) v = std::numeric_limits<int32_t>::min() + static_cast<int32_t>(random() % 2000);
  Check<int32_t, int64_t>(x);
}

// Mostly duplicates at first, then only new values: the size that was likely is far too small.
TEST(LateNewValues) {
  std::vector<int64_t> x(60000, 3);
  for (int64_t i = 0; i < 200000; ++i) x.push_back(i * 7919);
  Check<int64_t, int32_t>(x);
}

TEST(FewOnOneThreadKeepOrderOfFirstOccurrence) {
  const auto result = Run<int64_t, int32_t>({9, 4, 9, -2, 4, 0}, false, 1);
  EXPECT_TRUE((result.values == std::vector<int64_t>{9, 4, -2, 0}));
  EXPECT_TRUE((result.idx == std::vector<int32_t>{0, 1, 0, 2, 1, 3}));
}

TEST(SameInputSameOutput) {
  std::mt19937_64 random(2);
  std::vector<int64_t> x(200000);
  for (int64_t& v : x) v = static_cast<int64_t>(random() % 50000);
  const auto first = Run<int64_t, int64_t>(x, true, 4);
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto again = Run<int64_t, int64_t>(x, true, 4);
    EXPECT_TRUE(first.values == again.values && first.idx == again.idx && first.counts == again.counts);
  }
}

TEST(AllocationErrorsArePassedOn) {
  const std::vector<int64_t> x = {1, 2};
  std::vector<int32_t> idx(2);
  SerialFor pf;
  const Status status = Unique<int64_t, int32_t>(
      x.data(), 2, {}, idx.data(),
      [](int64_t, int64_t**, int64_t**) { return Status(StatusCode::kResourceExhausted, "no room"); }, pf);
  EXPECT_TRUE(status.code() == StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), std::string("no room"));
}

TEST(RefusesWhatIdxCannotHold) {
  const int64_t x = 1;
  int32_t idx = 0;
  SerialFor pf;
  UniqueOptions options;
  options.first = std::numeric_limits<int32_t>::max();
  const auto allocate = [](int64_t, int64_t**, int64_t**) { return Status(); };
  EXPECT_TRUE((Unique<int64_t, int32_t>(&x, 1, options, &idx, allocate, pf).code() == StatusCode::kInvalidArgument));
  EXPECT_TRUE(
      (Unique<int64_t, int32_t>(&x, int64_t{1} << 31, {}, &idx, allocate, pf).code() == StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tf_booster
