#include "cc/core/repeats/repeated_rows.h"

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/repeats/row_hash.h"

namespace tf_booster {
namespace {

template <class T>
RowFeature Dense(const std::vector<T>& values, int64_t items_a_row) {
  RowFeature feature;
  feature.bytes = reinterpret_cast<const char*>(values.data());
  feature.item_bytes = feature.item_stride = sizeof(T);
  feature.items_a_row = items_a_row;
  return feature;
}

void ExpectRows(const RepeatedRows& found, const std::vector<int32_t>& first_rows, const std::vector<int32_t>& row_of) {
  EXPECT_TRUE(found.first_rows == first_rows);
  EXPECT_TRUE(found.row_of == row_of);
}

RepeatedRows Find(const std::vector<RowFeature>& features, int64_t rows) {
  SerialFor pf;
  return FindRepeatedRows(features, rows, pf);
}

TEST(InterleavedRowsAreFound) {
  const std::vector<int64_t> user = {7, 3, 7, 3, 9};
  ExpectRows(Find({Dense(user, 1)}, 5), {0, 1, 4}, {0, 1, 0, 1, 2});
}

TEST(NoRowsAndOneRow) {
  const std::vector<int64_t> user = {7};
  ExpectRows(Find({Dense(user, 1)}, 0), {}, {});
  ExpectRows(Find({Dense(user, 1)}, 1), {0}, {0});
}

TEST(WithoutFeaturesAllRowsAreOne) { ExpectRows(Find({}, 3), {0}, {0, 0, 0}); }

TEST(EveryFeatureAndEveryItemCounts) {
  const std::vector<int32_t> pair = {1, 2, 1, 2, 1, 3, 1, 2};
  const std::vector<char> flag = {0, 1, 0, 0};
  ExpectRows(Find({Dense(pair, 2), Dense(flag, 1)}, 4), {0, 1, 2}, {0, 1, 2, 0});
}

TEST(BytesDecideNotNumbers) {
  const float nan = std::nanf("");
  const std::vector<float> x = {0.0f, -0.0f, nan, nan};
  ExpectRows(Find({Dense(x, 1)}, 4), {0, 1, 2}, {0, 1, 2, 2});
}

TEST(WhereStringsEndCounts) {
  const std::vector<std::string_view> text = {"ab", "c", "a", "bc", "ab", "c", "", "abc", "abc", ""};
  RowFeature feature;
  feature.strings = text.data();
  feature.items_a_row = 2;
  ExpectRows(Find({feature}, 5), {0, 1, 3, 4}, {0, 1, 0, 2, 3});
}

TEST(SparseRowsInAnyOrderAndWithoutEntries) {
  // Rows: {5, 6}, {}, {6, 5}, {5, 6}, {}.
  const std::vector<int64_t> indices = {3, 0, 0, 0, 2, 0, 0, 1, 3, 1, 2, 1};
  const std::vector<int64_t> values = {5, 5, 6, 6, 6, 5};
  EntriesByRow entries;
  EXPECT_OK(EntriesByRow::Of(indices.data(), 6, 2, 5, &entries));
  RowFeature feature = Dense(values, 0);
  feature.entries = &entries;
  ExpectRows(Find({feature}, 5), {0, 1, 2}, {0, 1, 2, 0, 1});
}

TEST(PlacesOfEntriesCount) {
  const std::vector<int64_t> indices = {0, 0, 1, 3, 2, 0};
  const std::vector<int64_t> values = {5, 5, 5};
  EntriesByRow entries;
  EXPECT_OK(EntriesByRow::Of(indices.data(), 3, 2, 3, &entries));
  RowFeature place, value = Dense(values, 0);
  place.bytes = reinterpret_cast<const char*>(indices.data() + 1);
  place.item_bytes = 8;
  place.item_stride = 16;
  place.entries = value.entries = &entries;
  ExpectRows(Find({value, place}, 3), {0, 1}, {0, 1, 0});
}

TEST(ARowOutsideIsAnError) {
  EntriesByRow entries;
  for (const int64_t row : {int64_t{3}, int64_t{-1}}) {
    const Status status = EntriesByRow::Of(&row, 1, 1, 3, &entries);
    EXPECT_TRUE(status.code() == StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "entry 0 is in row " + std::to_string(row) + ", but there are 3 rows");
  }
}

// The second word is chosen so that all rows have one hash: it must not decide.
TEST(RowsOfOneHashAreToldApart) {
  std::vector<uint64_t> words;
  const auto word_hash = [](uint64_t word) {
    return HashBytes(reinterpret_cast<const char*>(&word), 8, kRowHashStart);
  };
  for (uint64_t word : {1, 2, 3, 1}) words.insert(words.end(), {word, word_hash(word)});
  ExpectRows(Find({Dense(words, 2)}, 4), {0, 1, 2}, {0, 1, 2, 0});
}

TEST(ManyRowsAsAMapFindsThem) {
  std::mt19937 random(1);
  for (const int64_t rows : {17, 1000, 70000}) {
    std::vector<int64_t> a(rows), b(rows);
    for (int64_t i = 0; i < rows; ++i) {
      a[i] = static_cast<int64_t>(random() % 50) << 56;
      b[i] = static_cast<int64_t>(random() % (rows / 10 + 1));
    }
    std::map<std::pair<int64_t, int64_t>, int32_t> places;
    std::vector<int32_t> first_rows, row_of;
    for (int64_t i = 0; i < rows; ++i) {
      const auto [found, is_new] = places.emplace(std::make_pair(a[i], b[i]), static_cast<int32_t>(first_rows.size()));
      if (is_new) first_rows.push_back(static_cast<int32_t>(i));
      row_of.push_back(found->second);
    }
    ThreadFor threads(4);
    ExpectRows(FindRepeatedRows({Dense(a, 1), Dense(b, 1)}, rows, threads), first_rows, row_of);
  }
}

}  // namespace
}  // namespace tf_booster
