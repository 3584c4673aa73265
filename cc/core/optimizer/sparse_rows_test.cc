#include "cc/core/optimizer/sparse_rows.h"

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

struct Batch {
  std::vector<int64_t> indices;
  std::vector<float> grads;
  int64_t dim;

  SparseGradient<float, int64_t> gradient() const {
    return {indices.data(), grads.data(), static_cast<int64_t>(indices.size()), dim};
  }
};

Batch MakeBatch(int64_t size, int64_t rows, int64_t dim) {
  std::mt19937 random(5);
  Batch batch{{}, {}, dim};
  for (int64_t i = 0; i < size; ++i) {
    // Some rows often, most of them seldom.
    const int64_t row = static_cast<int64_t>(random() % rows);
    batch.indices.push_back(random() % 2 == 0 ? row : row % 3);
    for (int64_t j = 0; j < dim; ++j) batch.grads.push_back(static_cast<float>(random()) / 1e9f - 2.0f);
  }
  return batch;
}

// In the order of occurrence, from 0 on.
std::map<int64_t, std::vector<float>> SlowSums(const Batch& batch) {
  std::map<int64_t, std::vector<float>> sums;
  for (size_t i = 0; i < batch.indices.size(); ++i) {
    auto& sum = sums[batch.indices[i]];
    sum.resize(batch.dim);
    for (int64_t j = 0; j < batch.dim; ++j) sum[j] += batch.grads[i * batch.dim + j];
  }
  return sums;
}

void CheckRows(const SparseRows<float>& sums, int64_t dim, const std::map<int64_t, std::vector<float>>& want,
               std::map<int64_t, int>* seen) {
  for (const auto& row : sums.rows()) {
    ++(*seen)[row.index];
    const auto found = want.find(row.index);
    EXPECT_TRUE(found != want.end());
    for (int64_t j = 0; j < dim; ++j) EXPECT_TRUE(row.grad[j] == found->second[j]);
  }
}

TEST(SharesHaveEveryRowOnceWithTheSumInOrder) {
  for (const int64_t dim : {int64_t{1}, int64_t{3}, int64_t{16}}) {
    const Batch batch = MakeBatch(5000, 1000, dim);
    const auto want = SlowSums(batch);
    for (int bits = 0; bits <= 3; ++bits) {
      std::map<int64_t, int> seen;
      for (uint64_t number = 0; number < uint64_t{1} << bits; ++number) {
        SparseRows<float> sums;
        sums.Sum(batch.gradient(), RowShare{number, bits});
        CheckRows(sums, dim, want, &seen);
      }
      EXPECT_TRUE(seen.size() == want.size());
      for (const auto& [row, times] : seen) EXPECT_TRUE(times == 1);
    }
  }
}

TEST(RangesSayWhereARowStands) {
  const Batch batch = MakeBatch(3000, 500, 4);
  const auto want = SlowSums(batch);
  std::map<int64_t, int> seen;
  for (int64_t begin = 0; begin < 500; begin += 125) {
    std::vector<uint32_t> place(125);
    SparseRows<float> sums;
    sums.SumRange(batch.gradient(), begin, begin + 125, place.data());
    CheckRows(sums, 4, want, &seen);
    for (int64_t row = begin; row < begin + 125; ++row) {
      const uint32_t mine = place[row - begin];
      EXPECT_TRUE((mine != 0) == (want.count(row) == 1));
      if (mine != 0) EXPECT_TRUE(sums.rows()[mine - 1].index == row);
    }
  }
  EXPECT_TRUE(seen.size() == want.size());
}

TEST(AnEmptyGradientHasNoRows) {
  SparseRows<float> sums;
  sums.Sum(SparseGradient<float, int64_t>{}, RowShare{});
  EXPECT_TRUE(sums.rows().empty());
}

}  // namespace
}  // namespace tf_booster
