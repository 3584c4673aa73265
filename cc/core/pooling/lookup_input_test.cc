#include "cc/core/pooling/lookup_input.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

struct Entry {
  int64_t row;
  int64_t id;
  float weight;
};

struct Rows {
  std::vector<int32_t> splits;
  std::vector<int64_t> ids;
  std::vector<float> weights;
  std::vector<bool> empty;
};

LookupRules AllRules() { return {true, true, true}; }

// What a lookup's rows are, the slow way: row by row, each time over all entries.
Rows Reference(const std::vector<Entry>& entries, const LookupRules& rules, int64_t rows, int64_t default_id) {
  Rows result;
  result.splits.push_back(0);
  for (int64_t row = 0; row < rows; ++row) {
    for (const Entry& e : entries) {
      if (e.row != row || (rules.prune_ids && e.id < 0) || (rules.prune_weights && !(e.weight > 0))) continue;
      result.ids.push_back(e.id);
      result.weights.push_back(e.weight);
    }
    result.empty.push_back(static_cast<int64_t>(result.ids.size()) == result.splits.back());
    if (rules.fill_rows && result.empty.back()) {
      result.ids.push_back(default_id);
      result.weights.push_back(1.0f);
    }
    result.splits.push_back(static_cast<int32_t>(result.ids.size()));
  }
  return result;
}

template <class T>
Status Run(const LookupInput<T>& input, const LookupRules& rules, Rows* result) {
  int64_t rows = 0;
  TFB_RETURN_IF_ERROR(RowsOf(input, rules, &rows));
  result->splits.assign(rows + 1, -7);
  const auto empty = std::make_unique<bool[]>(rows + 1);
  LookupCounts counts;
  TFB_RETURN_IF_ERROR(CountRows(input, rules, rows, result->splits.data(), empty.get(), &counts));
  result->empty.assign(empty.get(), empty.get() + rows);
  std::vector<T> ids(counts.ids);
  result->weights.assign(input.weights != nullptr ? counts.ids : 0, -7.0f);
  FillRows(input, rules, counts, result->splits.data(), ids.data(),
           input.weights != nullptr ? result->weights.data() : nullptr);
  result->ids.assign(ids.begin(), ids.end());
  return Status();
}

TEST(SparseIdsAreThoseOfTheReference) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = random() % 9, n = rows == 0 ? 0 : random() % 30;
    std::vector<Entry> entries(n);
    for (Entry& e : entries)
      e = {static_cast<int64_t>(random() % rows), int64_t(random() % 9) - 3, int(random() % 5) - 1.5f};
    const bool ordered = round % 2 == 0;
    if (ordered) std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.row < b.row; });
    std::vector<int64_t> values, indices;
    std::vector<float> weights;
    for (const Entry& e : entries) {
      values.push_back(e.id);
      weights.push_back(e.weight);
      indices.insert(indices.end(), {e.row, 4});
    }
    indices.push_back(0);
    weights.push_back(0);  // Null would mean none.
    const int64_t shape[2] = {rows, 5};
    LookupInput<int64_t> input;
    input.values = values.data();
    input.n = n;
    const bool weighted = round % 4 < 2;
    if (weighted) input.weights = weights.data();
    input.default_id = 77;
    input.indices = indices.data();
    input.dense_shape = shape;
    const LookupRules rules{round % 3 == 0, weighted && round % 5 == 0, true};
    Rows got;
    EXPECT_OK(Run(input, rules, &got));
    const Rows want = Reference(entries, rules, rows, 77);
    EXPECT_TRUE(got.splits == want.splits && got.ids == want.ids && (!weighted || got.weights == want.weights));
    EXPECT_TRUE(got.empty == want.empty);
  }
}

TEST(SparseIdsThatAllStayInOrderAreTheIdsAsTheyAre) {
  const auto as_given = [](const std::vector<int64_t>& indices, const std::vector<int64_t>& values, int64_t rows,
                           bool weighted = false) {
    const std::vector<float> weights(values.size(), 1.0f);
    const int64_t shape[1] = {rows};
    LookupInput<int64_t> input;
    input.values = values.data();
    input.n = static_cast<int64_t>(values.size());
    input.indices = indices.data();
    input.rank = 1;
    input.dense_shape = shape;
    if (weighted) input.weights = weights.data();
    std::vector<int32_t> splits(rows + 1);
    const auto empty = std::make_unique<bool[]>(rows);
    LookupCounts counts;
    EXPECT_OK(CountRows(input, {true, false, true}, rows, splits.data(), empty.get(), &counts));
    return counts.as_given;
  };
  EXPECT_TRUE(as_given({0, 1, 1}, {5, 6, 5}, 2));
  EXPECT_TRUE(!as_given({0, 1, 1}, {5, 6, 5}, 2, true));   // Their weights have to be copied.
  EXPECT_TRUE(!as_given({1, 0, 1}, {5, 6, 5}, 2));         // Out of order.
  EXPECT_TRUE(!as_given({0, 1, 1}, {5, 6, 5}, 3));         // A row is filled.
  EXPECT_TRUE(!as_given({0, 1, 1}, {5, -6, 5}, 2));        // An id goes.
  EXPECT_TRUE(!as_given({0, 0, 0, 2}, {5, -6, 5, 5}, 3));  // One goes, one comes: as many as before.
}

TEST(DenseIdsSkipWhatIsIgnored) {
  const std::vector<int32_t> values = {-1, 5, -3, 7, -1, -1};
  LookupInput<int32_t> input;
  input.values = values.data();
  input.n = 6;
  input.rows = 3;
  input.width = 2;
  Rows got;
  EXPECT_OK(Run(input, AllRules(), &got));
  EXPECT_TRUE((got.ids == std::vector<int64_t>{5, 7, 0}));
  EXPECT_TRUE((got.splits == std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_OK(Run(input, {false, false, true}, &got));
  EXPECT_TRUE((got.ids == std::vector<int64_t>{5, -3, 7, 0}));
}

TEST(DenseIdsThatAllStayAreTheIdsAsTheyAre) {
  const std::vector<int64_t> values = {3, 1, 1, 0, 7, 3};
  for (const int64_t width : {1, 2, 3, 6}) {
    LookupInput<int64_t> input;
    input.values = values.data();
    input.n = 6;
    input.rows = 6 / width;
    input.width = width;
    Rows got;
    EXPECT_OK(Run(input, AllRules(), &got));
    EXPECT_TRUE(got.ids == values);
    EXPECT_TRUE(got.empty == std::vector<bool>(input.rows, false));
    for (int64_t row = 0; row <= input.rows; ++row) EXPECT_EQ(got.splits[row], row * width);
  }
}

TEST(LeadingDimensionsMakeTheRow) {
  const std::vector<int64_t> indices = {0, 0, 1, 0, 2, 0, 1, 1, 3}, values = {4, 5, 6};
  const int64_t shape[3] = {2, 3, 4};
  LookupInput<int64_t> input;
  input.values = values.data();
  input.n = 3;
  input.indices = indices.data();
  input.rank = 3;
  input.dense_shape = shape;
  input.leading_dims = 2;
  Rows got;
  EXPECT_OK(Run(input, AllRules(), &got));
  EXPECT_TRUE((got.ids == std::vector<int64_t>{4, 0, 5, 0, 6, 0}));
  input.leading_dims = 1;
  EXPECT_OK(Run(input, AllRules(), &got));
  EXPECT_TRUE((got.ids == std::vector<int64_t>{4, 5, 6}));
}

TEST(WithoutFillingTheLastRowCounts) {
  const std::vector<int64_t> rows = {0, 0, 2, 5}, values = {9, -8, 9, 7};
  LookupInput<int64_t> input;
  input.values = values.data();
  input.n = 4;
  input.indices = rows.data();
  input.rank = 1;
  Rows got;
  EXPECT_OK(Run(input, LookupRules(), &got));
  EXPECT_TRUE((got.splits == std::vector<int32_t>{0, 2, 2, 3, 3, 3, 4}));
  EXPECT_TRUE(got.ids == values);
  input.n = 0;
  EXPECT_OK(Run(input, LookupRules(), &got));
  EXPECT_EQ(got.splits.size(), 1u);
}

TEST(WhatCannotBeIsAnError) {
  const std::vector<int64_t> values = {1, 2};
  std::vector<int64_t> rows = {1, 0};
  int64_t shape[2] = {2, 1};
  LookupInput<int64_t> input;
  input.values = values.data();
  input.n = 2;
  input.indices = rows.data();
  input.rank = 1;
  Rows got;
  EXPECT_TRUE(Run(input, LookupRules(), &got).message().find("not increasing") != std::string::npos);
  rows = {-2, -1};
  EXPECT_TRUE(Run(input, LookupRules(), &got).message().find(">= 0") != std::string::npos);
  input.dense_shape = shape;
  rows = {0, 2};
  EXPECT_TRUE(Run(input, AllRules(), &got).message().find("row 2 of a batch of 2") != std::string::npos);
  rows = {0, -1};
  EXPECT_EQ(static_cast<int>(Run(input, AllRules(), &got).code()), static_cast<int>(StatusCode::kInvalidArgument));
  shape[0] = -1;
  EXPECT_TRUE(Run(input, AllRules(), &got).message().find("dense_shape[0] is -1") != std::string::npos);
  shape[0] = int64_t{1} << 40;
  EXPECT_TRUE(Run(input, AllRules(), &got).message().find("2147483647") != std::string::npos);
}

}  // namespace
}  // namespace tf_booster
