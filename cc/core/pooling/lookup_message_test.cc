#include "cc/core/pooling/lookup_message.h"

#include <cstring>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

struct Lookup {
  std::vector<int64_t> ids = {7, 8, 9};
  std::vector<int32_t> splits = {0, 2, 2, 5}, idx = {0, 1, 2, 0, 1};
  std::vector<float> weights = {1, 2, 3, 4, 5};
  bool zero[3] = {false, true, false};

  LookupPart Part() const {
    LookupPart part;
    part.pooled = true;
    part.ids = ids.data();
    part.id_bytes = 8;
    part.places = 5;
    part.segments = {Combiner::kMean, 3, splits.data(), idx.data(), zero, weights.data(), 3, 4};
    return part;
  }
};

std::vector<int64_t> Written(const std::vector<LookupPart>& parts) {
  std::vector<int64_t> message(MessageBytes(parts) / 8);
  WriteMessage(parts, reinterpret_cast<char*>(message.data()));
  return message;
}

bool Read(const std::vector<int64_t>& message, std::vector<LookupPart>* parts) {
  return ReadMessage(reinterpret_cast<const char*>(message.data()), static_cast<int64_t>(message.size()) * 8, parts);
}

TEST(LookupMessageIsReadAsItWasWritten) {
  const Lookup lookup;
  LookupPart rows_only = lookup.Part();
  rows_only.pooled = false;
  rows_only.places = 0;
  rows_only.segments = {};
  rows_only.segments.distinct = 3;
  rows_only.segments.dim = 4;
  const std::vector<int64_t> message = Written({rows_only, lookup.Part()});  // Parts point into it.
  std::vector<LookupPart> parts;
  EXPECT_TRUE(Read(message, &parts));
  EXPECT_EQ(parts.size(), 2u);
  EXPECT_TRUE(!parts[0].pooled && !parts[0].has_segments());
  EXPECT_EQ(parts[0].moved_rows(), 3);
  EXPECT_EQ(std::memcmp(parts[0].ids, lookup.ids.data(), 24), 0);
  const PoolingSegments& s = parts[1].segments;
  EXPECT_TRUE(parts[1].pooled && s.combiner == Combiner::kMean);
  EXPECT_EQ(s.dim, 4);
  EXPECT_EQ(parts[1].places, 5);
  EXPECT_EQ(std::memcmp(s.row_splits, lookup.splits.data(), 16), 0);
  EXPECT_EQ(std::memcmp(s.idx, lookup.idx.data(), 20), 0);
  EXPECT_EQ(std::memcmp(s.weights, lookup.weights.data(), 20), 0);
  EXPECT_EQ(std::memcmp(s.zero_rows, lookup.zero, 3), 0);
}

TEST(LookupMessageOfAnotherLengthIsNone) {
  const Lookup lookup;
  const std::vector<int64_t> message = Written({lookup.Part()});
  std::vector<LookupPart> parts;
  EXPECT_TRUE(Read(message, &parts));
  for (size_t size = 0; size < message.size(); ++size) {
    EXPECT_FALSE(Read(std::vector<int64_t>(message.begin(), message.begin() + size), &parts));
  }
  std::vector<int64_t> longer = message;
  longer.push_back(0);
  EXPECT_FALSE(Read(longer, &parts));
}

TEST(LookupMessageWithWrongNumbersIsNone) {
  const Lookup lookup;
  const std::vector<int64_t> message = Written({lookup.Part()});
  std::vector<LookupPart> parts;
  for (size_t field = 0; field < 8; ++field) {
    for (const int64_t value : {int64_t{-1}, int64_t{1} << 31, int64_t{1} << 62}) {
      std::vector<int64_t> broken = message;
      broken[field] = value;
      EXPECT_TRUE(field == 1 || !Read(broken, &parts));  // Of the flags not all bits count.
    }
  }
}

TEST(LookupMessagePoolsWhereThatMovesLess) {
  const Lookup lookup;
  LookupPart part = lookup.Part();
  part.segments.dim = 100;
  EXPECT_FALSE(PoolingMovesLess(part, 4, true));  // Three rows either way.
  part.segments.distinct = 4;
  EXPECT_TRUE(PoolingMovesLess(part, 4, true));
  part.segments.dim = 10;  // A row of 40 bytes, and 16 + 20 + 20 + 3 of segments: it pays twice, but not once.
  EXPECT_TRUE(PoolingMovesLess(part, 4, true));
  EXPECT_FALSE(PoolingMovesLess(part, 4, false));
}

}  // namespace
}  // namespace tf_booster
