// Initial values: the generator against its authors' vectors, the distributions against their definitions.
#include "cc/core/hash_table/initializer.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/hash_table/initial_row.h"

namespace tf_booster {
namespace {

bool PhiloxGives(uint64_t key, PhiloxWords counter, PhiloxWords expected) {
  const PhiloxWords words = Philox(key, counter);
  return std::equal(words.word, words.word + 4, expected.word);
}

// Bit for bit, and nothing behind a row. Of n keys, from `key` on.
bool WrittenAsDefined(const RowInitializer& init, int64_t key, int64_t n, int64_t dim) {
  constexpr float kBehind = 12345.0f;
  std::vector<float> wanted(n * (dim + 1), kBehind);
  std::vector<int64_t> keys(n);
  for (int64_t r = 0; r < n; ++r) {
    keys[r] = static_cast<int64_t>(static_cast<uint64_t>(key) + r * 0x9E3779B97F4A7C15);
    InitialRow(init, keys[r], dim, &wanted[r * (dim + 1)]);
  }
  const auto same = [&](const auto& write) {
    std::vector<float> written(n * (dim + 1), kBehind);
    std::vector<float*> rows(n);
    for (int64_t r = 0; r < n; ++r) rows[r] = &written[r * (dim + 1)];
    write(rows);
    return n == 0 || std::memcmp(wanted.data(), written.data(), wanted.size() * sizeof(float)) == 0;
  };
  for (const SimdLevel level : RunnableSimdLevels()) {
    if (!same([&](const auto& rows) { WriteInitialRows(level, init, keys.data(), n, dim, rows.data()); })) return false;
  }
  return same([&](const auto& rows) {
    InitialRows initial_rows(dim);
    for (int64_t r = 0; r < n; ++r) initial_rows.Add(init, keys[r], rows[r]);
  });
}

TEST(EachLevelWritesTheRowsThatAreDefined) {
  for (const InitializerKind kind : {InitializerKind::kConstant, InitializerKind::kUniform, InitializerKind::kNormal,
                                     InitializerKind::kTruncatedNormal}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}}) {
      const RowInitializer init = MakeRowInitializer({kind, -0.3f, 0.7f}, "field", seed);
      for (int64_t dim = 1; dim < 100; ++dim) {
        for (const int64_t key : {int64_t{0}, int64_t{-1}, int64_t{1} << 32, INT64_MIN, INT64_MAX, 977 * dim}) {
          EXPECT_TRUE(WrittenAsDefined(init, key, 1 + dim % 7, dim));
        }
      }
      for (int64_t n = 0; n < 10; ++n) {
        for (const int64_t dim : {1, 4, 15, 16, 17, 31, 32, 33, 48, 50}) EXPECT_TRUE(WrittenAsDefined(init, n, n, dim));
      }
      EXPECT_TRUE(WrittenAsDefined(init, 1, 2000, 52));
      EXPECT_TRUE(WrittenAsDefined(init, 5, 3, 1024));
    }
  }
}

// Rows of several fields between each other's.
TEST(RowsOfDifferentInitializersDoNotMix) {
  constexpr int64_t kDim = 20, kRows = 500;
  const RowInitializer inits[] = {MakeRowInitializer({InitializerKind::kUniform, 0.0f, 1.0f}, "a", 1),
                                  MakeRowInitializer({InitializerKind::kConstant, 3.0f, 0.0f}, "b", 1),
                                  MakeRowInitializer({InitializerKind::kNormal, 0.0f, 1.0f}, "c", 1)};
  const auto init_of = [&](int64_t r) -> const RowInitializer& { return inits[Mix64(r) % 7 % 3]; };
  std::vector<float> wanted(kRows * kDim), written(kRows * kDim);
  {
    InitialRows initial_rows(kDim);
    for (int64_t r = 0; r < kRows; ++r) initial_rows.Add(init_of(r), r, &written[r * kDim]);
  }
  for (int64_t r = 0; r < kRows; ++r) InitialRow(init_of(r), r, kDim, &wanted[r * kDim]);
  EXPECT_TRUE(wanted == written);
}

// The vectors of Random123's kat_vectors for philox4x32-10.
TEST(PhiloxEqualsItsReference) {
  EXPECT_TRUE(PhiloxGives(0, {{0, 0, 0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  EXPECT_TRUE(PhiloxGives(~uint64_t{0}, {{~0u, ~0u, ~0u, ~0u}}, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  EXPECT_TRUE(PhiloxGives(0x299f31d0a4093822, {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                          {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST(LogIsALogarithm) {
  for (uint32_t bits = 0x00800000; bits < 0x7F800000; bits += 9973) {
    const float x = exact::FloatOf(bits);
    const double expected = std::log(static_cast<double>(x));
    if (std::abs(exact::Log(x) - expected) > 2e-7 * std::max(1.0, std::abs(expected)))
      EXPECT_EQ(exact::Log(x), expected);
  }
}

// erf(z / sqrt 2) of the value that a word gives is the uniform number that the word stands for.
TEST(NormalIsTheInverseOfItsDistribution) {
  for (uint64_t word = 0; word < uint64_t{1} << 31; word += 65521) {
    const uint32_t positive = static_cast<uint32_t>(word), negative = positive | 0x80000000u;
    const double x = 1 - (word + 0.5) / 2147483648.0;
    const double z = NormalFromWord(positive), truncated = TruncatedNormalFromWord(positive);
    EXPECT_TRUE(std::abs(std::erf(z / std::sqrt(2.0)) - x) < 5e-7);
    EXPECT_TRUE(std::abs(std::erf(truncated / std::sqrt(2.0)) - x * std::erf(std::sqrt(2.0))) < 1e-6);
    EXPECT_EQ(static_cast<float>(-z), NormalFromWord(negative));
    EXPECT_EQ(static_cast<float>(-truncated), TruncatedNormalFromWord(negative));
  }
}

// The tail comes from small words, whose digits must not be lost on the way. The polynomial was made for |x| that a
// float tells from 1; the few words beyond (about 30 of 2^31) are a few thousandths of a deviation off.
TEST(NormalHasItsTail) {
  for (const uint32_t word : {0u, 1u, 7u, 100u, 5000u}) {
    const double z = NormalFromWord(word), upper = (word + 0.5) / 2147483648.0;
    EXPECT_TRUE(std::abs(std::erfc(z / std::sqrt(2.0)) / upper - 1) < (word < 30 ? 2e-2 : 1e-5));
  }
}

TEST(TruncatedStaysBelowTwoDeviations) {
  float greatest = 0;
  for (uint32_t word = 0; word < 100000; ++word) greatest = std::max(greatest, TruncatedNormalFromWord(word));
  EXPECT_TRUE(greatest < 2.0f);
  EXPECT_TRUE(greatest > 1.99f);
  EXPECT_TRUE(TruncatedNormalFromWord(0x80000000u) > -2.0f);
}

TEST(UniformNeverReachesItsMaximum) {
  const auto value = [](float a, float b, uint32_t word) {
    const RowInitializer init = MakeRowInitializer({InitializerKind::kUniform, a, b}, "t", 1);
    return InitialFromWord<InitializerKind::kUniform>(init, word);
  };
  const float ends[][2] = {{0.0f, 1.0f}, {-1.0f, 0.0f}, {-3.0f, -2.0f}, {16777216.0f, 16777218.0f}, {-1e-3f, 1e3f}};
  for (const auto& [a, b] : ends) {
    for (const uint32_t word : {0u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0xFFFFFE00u}) {
      EXPECT_TRUE(value(a, b, word) >= a);
      EXPECT_TRUE(value(a, b, word) < b);
    }
  }
  EXPECT_EQ(value(2.0f, 2.0f, 77u), 2.0f);
}

// Mean and deviation over many rows, within five standard errors.
TEST(MomentsAreRight) {
  const struct {
    InitializerSpec spec;
    double mean, deviation;
  } cases[] = {{{InitializerKind::kConstant, 0.5f, 9.0f}, 0.5, 0.0},
               {{InitializerKind::kUniform, -1.0f, 3.0f}, 1.0, 4 / std::sqrt(12.0)},
               {{InitializerKind::kNormal, 1.0f, 2.0f}, 1.0, 2.0},
               {{InitializerKind::kTruncatedNormal, 1.0f, 2.0f}, 1.0, 2.0 * 0.87962566}};
  for (const auto& c : cases) {
    const RowInitializer init = MakeRowInitializer(c.spec, "user_emb", 3);
    constexpr int64_t kRows = 20000, kDim = 7;
    double sum = 0, squares = 0;
    for (int64_t key = 0; key < kRows; ++key) {
      float row[kDim];
      InitialRow(init, key, kDim, row);
      for (const float x : row) sum += x, squares += (x - c.mean) * (x - c.mean);
    }
    const double n = kRows * kDim;
    EXPECT_TRUE(std::abs(sum / n - c.mean) <= 5 * c.deviation / std::sqrt(n));
    EXPECT_TRUE(std::abs(std::sqrt(squares / n) - c.deviation) <= 5 * c.deviation / std::sqrt(n));
  }
}

// A wider row begins with the narrower one; seed, name, key and column each matter.
TEST(ValuesDependOnSeedNameKeyAndColumn) {
  const InitializerSpec spec = {InitializerKind::kUniform, 0.0f, 1.0f};
  float wide[9], narrow[3];
  InitialRow(MakeRowInitializer(spec, "a", 1), 5, 9, wide);
  InitialRow(MakeRowInitializer(spec, "a", 1), 5, 3, narrow);
  EXPECT_TRUE(std::equal(narrow, narrow + 3, wide));
  std::set<float> values(wide, wide + 9);
  for (const char* name : {"a", "b"}) {
    for (const uint64_t seed : {1, 2}) {
      for (const int64_t key : {int64_t{5}, int64_t{6}, int64_t{5} << 32}) {
        InitialRow(MakeRowInitializer(spec, name, seed), key, 3, narrow);
        values.insert(narrow, narrow + 3);
      }
    }
  }
  EXPECT_EQ(values.size(), size_t{9 + 11 * 3});
}

// A table restored from a checkpoint of today gives new keys what it would have given, so the function must never
// change.
TEST(ValuesAreTheSameForEver) {
  float row[4];
  InitialRow(MakeRowInitializer({InitializerKind::kTruncatedNormal, 0.0f, 0.25f}, "user_emb", 42), -1, 4, row);
  EXPECT_EQ(row[0], 0.0373927429f);
  EXPECT_EQ(row[1], -0.0703250691f);
  EXPECT_EQ(row[2], -0.0486674123f);
  EXPECT_EQ(row[3], -0.242571458f);
}

}  // namespace
}  // namespace tf_booster
