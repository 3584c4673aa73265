// The order of additions of row_sums.h over row_groups.h, which results are bit for bit the CPU's by; and that no term
// is asked for that is not the row's.
#include "cc/core/gpu/row_sums.h"

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/testing/duplicates.h"

namespace tf_booster {
namespace gpu {
namespace {

using testing::ManyDuplicates;
using testing::Rotated;
using testing::SumInPieces;

template <class T>
bool SameBits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Rows of one tensor, grouped, and a term of each place; places of another tensor stand before and behind them.
template <class V>
struct Rows {
  std::vector<int32_t> indices, other = {2, 0, 1, 0};
  std::vector<V> terms;
  std::vector<char> memory;
  RowGroups groups;
  std::vector<std::vector<int64_t>> places;  // Of each row.
  mutable std::set<int64_t> asked;

  Rows(const std::vector<int64_t>& counts, bool last, int seed)
      : indices(testing::RowsWithDuplicates<std::vector<int32_t>>(counts, seed)), places(counts.size()) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < indices.size(); ++i) {
      V term = {};
      for (auto& value : term.at) value = testing::NumberOfAnySize<typename V::Type>(&random);
      terms.push_back(term);
      places[indices[i]].push_back(static_cast<int64_t>(i));
    }
    const RowNumbers<int32_t> others = {other.data(), 4, 3};
    std::vector<RowNumbers<int32_t>> numbers = {
        others, {indices.data(), static_cast<int64_t>(indices.size()), static_cast<int64_t>(counts.size())}};
    if (!last) numbers.push_back(others);
    Scratch measure(nullptr);
    GroupRows<HostQueue>(nullptr, numbers, true, &measure);
    memory.resize(measure.used() + 1);
    Scratch scratch(memory.data());
    HostQueue queue(2);
    groups = GroupRows(&queue, numbers, true, &scratch)[1];
  }

  V operator()(const RowGroups::Position& at) const {
    asked.insert(at.place);
    return terms[at.place];
  }
  std::vector<V> TermsOf(int64_t row, size_t first = 0, size_t most = ~size_t{0}) const {
    std::vector<V> of_row;
    for (size_t i = first; i < places[row].size() && i - first < most; ++i) of_row.push_back(terms[places[row][i]]);
    return of_row;
  }
};

// As the others of a pack, whose sums start with a term as well.
template <class V>
V Sum(const std::vector<V>& terms) {
  V sum = {};
  for (int c = 0; c < V::kSize; ++c) {
    std::vector<typename V::Type> column;
    for (const V& term : terms) column.push_back(term.at[c]);
    sum.at[c] = SumInPieces(column);
  }
  return sum;
}

template <class V>
void CheckSums(const std::vector<int64_t>& counts, bool last, int seed) {
  const Rows<V> rows(counts, last, seed);
  const int64_t size = rows.groups.size;
  std::vector<V> partials(NumPartials(size));
  const PartialAt<V> partial = {partials.data(), 1, WindowsOf(size)};
  RowGroups searched = rows.groups;
  searched.head_of = nullptr;
  for (int64_t window = 0; window < WindowsOf(size); ++window) {
    EXPECT_EQ(LongRowIn(searched, window), LongRowIn(rows.groups, window));
    EXPECT_EQ(CutIn<kPiece>(searched, window), CutIn<kPiece>(rows.groups, window));
    EXPECT_EQ(CutIn<kBlock>(searched, window), CutIn<kBlock>(rows.groups, window));
  }
  for (int64_t unit = 0; unit < PieceUnits(size); ++unit) StorePiece(rows.groups, rows.groups, unit, rows, partial);
  for (int64_t unit = 0; unit < BlockUnits(size); ++unit) StoreBlock(rows.groups, rows.groups, unit, partial);
  for (size_t r = 0; r < counts.size(); ++r) {
    const int32_t head = rows.groups.head_of[r];
    EXPECT_EQ(head == 0, counts[r] == 0);
    if (head == 0) continue;
    for (int64_t i = 0; i < counts[r]; ++i) {
      const int64_t k = head - 1 + i;
      EXPECT_EQ(rows.groups.is_head(k), i == 0);
      EXPECT_EQ(rows.groups.At(k).place, rows.places[r][i]);
      rows.asked.clear();
      EXPECT_TRUE(SameBits(SumOfPiece<V>(rows.groups, k, rows), Sum(rows.TermsOf(static_cast<int64_t>(r), i, 64))));
      EXPECT_EQ(static_cast<int64_t>(rows.asked.size()), Min(counts[r] - i, 64));
    }
    rows.asked.clear();
    EXPECT_TRUE(
        SameBits(SumOfRow<V>(rows.groups, head - 1, rows, partial), Sum(rows.TermsOf(static_cast<int64_t>(r)))));
    EXPECT_EQ(static_cast<int64_t>(rows.asked.size()), counts[r] > kPiece ? kTermsAtOnce : counts[r]);
  }
}

TEST(TermsAreAddedInTheirOrder) {
  for (size_t first = 0; first < ManyDuplicates().size(); ++first) {
    for (const bool last : {false, true}) {
      CheckSums<One<float>>(Rotated(ManyDuplicates(), first), last, 1);
      CheckSums<Pack<float>>(Rotated(ManyDuplicates(), first), last, 2);
      CheckSums<Pack<double>>(Rotated(ManyDuplicates(), first), last, 3);
    }
  }
  CheckSums<Pack<float>>({1}, true, 4);
  CheckSums<Pack<float>>({2000, 1}, true, 5);
  CheckSums<Pack<float>>({1, 4096}, true, 6);
  // Where blocks of pieces begin and end.
  for (const int64_t count : {4095, 4096, 4097, 4160, 4161, 8191, 8192, 8193, 21000}) {
    CheckSums<One<float>>({5000, count, 70}, false, 7);
    CheckSums<Pack<float>>({64, count}, true, 8);
  }
}

// What the test above stands on: sums of shuffled terms differ, and so do those without pieces where there is more than
// one, for a piece of one term is the term.
TEST(AnotherOrderHasOtherBits) {
  const Rows<One<float>> rows({16, 65, 320}, true, 1);
  std::mt19937 random(5);
  for (const int64_t row : {0, 1, 2}) {
    auto terms = rows.TermsOf(row);
    const One<float> sum = Sum(terms);
    int others = 0, pieces = 0;
    for (int i = 0; i < 100; ++i) {
      std::shuffle(terms.begin(), terms.end(), random);
      One<float> without_pieces = terms[0];
      for (size_t j = 1; j < terms.size(); ++j) without_pieces += terms[j];
      others += !SameBits(sum, Sum(terms));
      pieces += !SameBits(without_pieces, Sum(terms));
    }
    EXPECT_TRUE(others >= 10);
    EXPECT_EQ(pieces >= 10, row == 2);
  }
}

// A sum of one term has its bits: nothing is added to 0.
TEST(MinusZeroStays) {
  Rows<One<float>> rows({1, 2}, true, 1);
  for (auto& term : rows.terms) term.at[0] = -0.0f;
  for (const int64_t row : {0, 1}) {
    EXPECT_TRUE(SameBits(SumOfPiece<One<float>>(rows.groups, rows.groups.head_of[row] - 1, rows), One<float>{{-0.0f}}));
  }
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
