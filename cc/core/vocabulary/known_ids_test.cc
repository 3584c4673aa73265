#include "cc/core/vocabulary/known_ids.h"

#include <limits>
#include <random>
#include <string>
#include <unordered_map>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

template <class Key>
using Answer = typename KnownIds<Key>::Answer;

TEST(Texts) {
  KnownIds<std::string_view> known;
  int64_t id = -7;
  std::string text = "a";
  EXPECT_TRUE(known.Find(5, text, &id) == Answer<std::string_view>::kUnknown);
  known.AddId(5, text, 3);
  known.AddAbsent(5, "b");  // With the same hash.
  known.AddId(0, "", 4);
  text = "z";  // The key's text was kept.
  EXPECT_TRUE(known.Find(5, "a", &id) == Answer<std::string_view>::kId);
  EXPECT_EQ(id, 3);
  EXPECT_TRUE(known.Find(5, "b", &id) == Answer<std::string_view>::kAbsent);
  EXPECT_EQ(id, 3);
  EXPECT_TRUE(known.Find(5, "z", &id) == Answer<std::string_view>::kUnknown);
  EXPECT_TRUE(known.Find(0, "", &id) == Answer<std::string_view>::kId);
  EXPECT_EQ(id, 4);
  known.AddId(5, "a", 9);  // Stays as it is.
  known.AddId(5, "b", 9);
  EXPECT_TRUE(known.Find(5, "a", &id) == Answer<std::string_view>::kId);
  EXPECT_EQ(id, 3);
  EXPECT_TRUE(known.Find(5, "b", &id) == Answer<std::string_view>::kAbsent);
  EXPECT_EQ(static_cast<int64_t>(known.size()), 3);
}

TEST(ManyTextsOfFewHashes) {
  KnownIds<std::string_view> known;
  std::unordered_map<std::string, int64_t> wanted;
  std::mt19937_64 random(1);
  const auto hash = [](const std::string& key) { return key.size() * 0x9E3779B97F4A7C15ull; };
  for (int i = 0; i < 3000; ++i) {
    const std::string key(random() % 30, static_cast<char>('a' + random() % 26));
    wanted.emplace(key, i);
    known.AddId(hash(key), key, i);
  }
  EXPECT_EQ(known.size(), wanted.size());
  for (const auto& [key, number] : wanted) {
    int64_t id = -1;
    EXPECT_TRUE(known.Find(hash(key), key, &id) == Answer<std::string_view>::kId);
    EXPECT_EQ(id, number);
  }
}

TEST(NumbersAreTheirHashes) {
  KnownIds<KeyIsHash> known;
  for (uint64_t key = 0; key < 5000; ++key) known.AddId(key << 50 | key >> 3, {}, static_cast<int64_t>(key));
  for (uint64_t key = 0; key < 5000; ++key) {
    int64_t id = -1;
    EXPECT_TRUE(known.Find(key << 50 | key >> 3, {}, &id) == Answer<KeyIsHash>::kId);
    EXPECT_EQ(id, static_cast<int64_t>(key));
  }
  int64_t id = -1;
  EXPECT_TRUE(known.Find(1234567, {}, &id) == Answer<KeyIsHash>::kUnknown);
}

TEST(AbsentOnesEnd) {
  KnownIds<KeyIsHash> known;
  const auto most = static_cast<uint64_t>(KnownIds<KeyIsHash>::kMostAbsent);
  for (uint64_t key = 0; key < most + 100; ++key) known.AddAbsent(key << 7, {});
  int64_t id = 0;
  EXPECT_EQ(known.size(), static_cast<size_t>(most));
  EXPECT_TRUE(known.Find((most - 1) << 7, {}, &id) == Answer<KeyIsHash>::kAbsent);
  EXPECT_TRUE(known.Find(most << 7, {}, &id) == Answer<KeyIsHash>::kUnknown);
  known.AddId(most << 7, {}, 5);
  EXPECT_TRUE(known.Find(most << 7, {}, &id) == Answer<KeyIsHash>::kId);
}

TEST(IdsThatMeanSomethingElse) {
  KnownIds<KeyIsHash> known;
  for (const int64_t offset : {0, 1}) known.AddId(9, {}, std::numeric_limits<int64_t>::min() + offset);
  int64_t id = 0;
  EXPECT_TRUE(known.Find(9, {}, &id) == Answer<KeyIsHash>::kUnknown);
  known.AddId(9, {}, std::numeric_limits<int64_t>::min() + 2);
  EXPECT_TRUE(known.Find(9, {}, &id) == Answer<KeyIsHash>::kId);
}

}  // namespace
}  // namespace tf_booster
