#include "cc/core/text/pieces.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

using Strings = std::vector<std::string>;

constexpr EmptyPieces kKept = EmptyPieces::kKept, kKeptInTexts = EmptyPieces::kKeptInTexts,
                      kSkipped = EmptyPieces::kSkipped;
constexpr size_t kAll = std::numeric_limits<size_t>::max();

Strings Split(const std::string& text, const Splitting& how, size_t most = kAll) {
  const std::vector<char> copy(text.begin(), text.end());  // So that AddressSanitizer sees a read beyond the end.
  std::vector<std::string_view> pieces;
  SplitPieces({copy.data(), copy.size()}, how, most, &pieces);
  return {pieces.begin(), pieces.end()};
}

TEST(PiecesOfOneDelimiter) {
  EXPECT_TRUE(Split("1 2:3  4", {' ', false, kSkipped}) == (Strings{"1", "2:3", "4"}));
  EXPECT_TRUE(Split("1 2:3  4", {' ', false, kKept}) == (Strings{"1", "2:3", "", "4"}));
  EXPECT_TRUE(Split("", {' ', false, kSkipped}).empty());
  EXPECT_TRUE(Split("", {' ', false, kKept}) == (Strings{""}));
  EXPECT_TRUE(Split("", {' ', false, kKeptInTexts}).empty());
  EXPECT_TRUE(Split(" ", {' ', false, kKeptInTexts}) == (Strings{"", ""}));
  EXPECT_TRUE(Split(",", {',', false, kKept}) == (Strings{"", ""}));
  EXPECT_TRUE(Split("a", {',', false, kSkipped}) == (Strings{"a"}));
}

TEST(Blanks) {
  EXPECT_TRUE(Split(" \t a\r\nb\vc\f", {' ', true, kKept}) == (Strings{"a", "b", "c"}));
  EXPECT_TRUE(Split("", {' ', true, kKept}).empty());
  EXPECT_TRUE(Split("  ", {' ', true, kKept}).empty());
}

TEST(NoMoreThanAreWanted) {
  EXPECT_TRUE(Split("a,b,c", {',', false, kSkipped}, 2) == (Strings{"a", "b"}));
  EXPECT_TRUE(Split("a b c", {' ', true, kSkipped}, 1) == (Strings{"a"}));
  EXPECT_TRUE(Split("a,b", {',', false, kSkipped}, 0).empty());
}

// Byte by byte.
Strings Expected(const std::string& text, const Splitting& how, size_t most) {
  if (text.empty() && how.empty == kKeptInTexts) return {};
  Strings found(1);
  for (char c : text) {
    const bool ends = how.blanks ? std::string(" \t\n\v\f\r").find(c) != std::string::npos : c == how.delimiter;
    if (ends) {
      found.emplace_back();
    } else {
      found.back().push_back(c);
    }
  }
  Strings kept;
  for (const std::string& piece : found) {
    if ((piece.empty() && (how.blanks || how.empty == kSkipped)) || kept.size() == most) continue;
    kept.push_back(piece);
  }
  return kept;
}

TEST(RandomTexts) {
  std::mt19937 random(7);
  const std::string letters = "ab, :\t\n\xff";
  for (int i = 0; i < 100000; ++i) {
    std::string text(random() % 70, 'x');
    const unsigned rare = random() % 5 + 1;
    for (char& c : text) {
      if (random() % rare == 0) c = letters[random() % letters.size()];
    }
    const Splitting how{letters[random() % letters.size()], random() % 4 == 0, static_cast<EmptyPieces>(random() % 3)};
    const size_t most = random() % 3 == 0 ? random() % 8 : kAll;
    EXPECT_TRUE(Split(text, how, most) == Expected(text, how, most));
  }
}

}  // namespace
}  // namespace tf_booster
