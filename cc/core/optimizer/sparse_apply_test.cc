#include "cc/core/optimizer/sparse_apply.h"

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/optimizer/fake_table.h"
#include "cc/core/optimizer/gradient_sums.h"

namespace tf_booster {
namespace {

int64_t Code(int64_t group, int64_t place) { return (group << kCodePlaceBits) | (place + 1); }

// Random probes and codes, and what should come of them.
struct Problem {
  static constexpr int kFields = 3;

  std::vector<std::vector<int64_t>> keys, counts;
  std::vector<std::vector<uint32_t>> fields;
  std::vector<int64_t> codes;
  std::vector<float> grads;
  std::map<FakeTable::Key, std::vector<float>> sums;  // By field and key, in the order of occurrence.
  std::map<FakeTable::Key, int64_t> totals;
  SparseApplyBatch batch;

  // Gradients come in `parts` pieces of different sizes, one of them empty.
  Problem(int groups, int64_t keys_a_group, int64_t num_codes, int64_t dim, int seed, int parts = 1) {
    std::mt19937_64 random(seed);
    for (int g = 0; g < groups; ++g) {
      std::set<FakeTable::Key> distinct;  // Ids of one field are often those of another.
      while (static_cast<int64_t>(distinct.size()) < keys_a_group) {
        const int64_t key = static_cast<int64_t>(random() % keys_a_group) - keys_a_group / 2;
        distinct.insert({static_cast<uint32_t>(random() % kFields), key});
      }
      keys.emplace_back();
      fields.emplace_back();
      counts.emplace_back();
      for (const FakeTable::Key& key : distinct) {
        fields[g].push_back(key.first);
        keys[g].push_back(key.second);
        counts[g].push_back(1 + random() % 5);
        totals[key] += counts[g].back();
      }
      if (g == 1) {  // Fields of a probe need not stand together.
        std::swap(keys[g].front(), keys[g].back());
        std::swap(fields[g].front(), fields[g].back());
        std::swap(counts[g].front(), counts[g].back());
      }
    }
    std::normal_distribution<float> value;
    for (int64_t i = 0; i < num_codes; ++i) {
      const int g = random() % groups;
      // Small places come often; the last tenth never.
      const int64_t place = random() % (1 + random() % std::max<int64_t>(keys_a_group - keys_a_group / 10, 1));
      codes.push_back(i % 7 == 3 ? 0 : Code(g, place));
      for (int64_t j = 0; j < dim; ++j) grads.push_back(value(random));
      if (codes[i] == 0) continue;
      std::vector<float>& sum = sums[{fields[g][place], keys[g][place]}];
      const float* grad = grads.data() + i * dim;
      if (sum.empty()) {
        sum.assign(grad, grad + dim);
      } else {
        for (int64_t j = 0; j < dim; ++j) sum[j] += grad[j];
      }
    }
    for (int g = 0; g < groups; ++g) {
      batch.probes.push_back(
          {keys[g].data(), fields[g].data(), counts[g].data(), nullptr, static_cast<int64_t>(keys[g].size())});
    }
    for (int64_t part = 0, begin = 0; part < parts; ++part) {
      const int64_t end = part == parts - 1 ? num_codes : part == 1 ? begin : begin + (num_codes - begin) / 3;
      batch.gradients.push_back({codes.data() + begin, grads.data() + begin * dim, end - begin});
      begin = end;
    }
    batch.grad_dim = dim;
    batch.fields = {2, 0, 1};
  }
};

void CheckAgainstSums(Problem& problem, FakeTable& table, int64_t dim, ParallelFor& pf) {
  const auto optimizer = MakeRowOptimizer(AdamOptions{0.9f, 0.999f, 0.01f, 0.9f, 0.999f, 1e-8f, false});
  EXPECT_OK(SparseApply(table, problem.batch, *optimizer, pf));
  EXPECT_EQ(table.step(), 1);
  EXPECT_TRUE(table.stepped() == problem.batch.fields);
  EXPECT_TRUE(table.frequencies() == problem.totals);
  const std::vector<float> untouched(3 * dim, 0.5f);
  for (auto& [key, row] : table.rows()) {
    std::vector<float> expected = untouched;
    const auto sum = problem.sums.find(key);
    if (sum != problem.sums.end()) {
      float* row_pointer = expected.data();
      const float* grad = sum->second.data();
      optimizer->ApplyRows({&row_pointer, &grad, 1}, dim);
    }
    EXPECT_TRUE(row == expected);
  }
}

TEST(SumsCountsAndUpdates) {
  for (const int64_t dim : {1, 3, 16, 200}) {
    for (const int groups : {1, 3}) {
      for (const int64_t rows_a_call : {1, 5, 64}) {
        for (const int parts : {1, 4}) {
          Problem problem(groups, 150, 2000, dim, 1, parts);
          FakeTable table(dim, 2, rows_a_call, Problem::kFields);
          SerialFor pf;
          CheckAgainstSums(problem, table, dim, pf);
        }
      }
    }
  }
}

TEST(BitsDoNotDependOnThreads) {
  for (const int threads : {2, 3, 8}) {
    for (const int groups : {1, 2}) {
      Problem problem(groups, 5000, 150000, 4, 2, groups * 2);
      FakeTable table(4, 2, groups == 1 ? 32 : 2500, Problem::kFields);  // Also more than are updated at a time.
      ThreadFor pf(threads);
      CheckAgainstSums(problem, table, 4, pf);
    }
  }
}

// More sums than are allocated at a time, and the sign of zero that adding to zero leaves.
TEST(ManySumsHaveTheBitsOfPlainOnes) {
  constexpr int64_t kDim = 72, kPlaces = 9000, kRows = 3 * kPlaces;
  std::vector<float> grads(kRows * kDim);
  std::vector<int64_t> places(kRows);
  std::mt19937_64 random(5);
  for (int64_t row = 0; row < kRows; ++row) {
    places[row] = row < 2 * kPlaces ? row % kPlaces : static_cast<int64_t>(random() % kPlaces);
    for (int64_t j = 0; j < kDim; ++j) {
      grads[row * kDim + j] = j % 9 == 0 ? -0.0f : static_cast<float>(random() % 1000) * 0.1f - 50;
    }
  }
  std::vector<float> expected(kPlaces * kDim);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t j = 0; j < kDim; ++j) expected[places[row] * kDim + j] += grads[row * kDim + j];
  }
  for (const int threads : {1, 2}) {
    GradientSums sums;
    ThreadFor pf(threads);
    sums.Build(
        {{grads.data(), kRows}}, kDim, kPlaces, [&](int64_t, int64_t row) { return places[row]; }, pf);
    for (int64_t place = 0; place < kPlaces; ++place) {
      EXPECT_TRUE(std::memcmp(sums.Of(place), &expected[place * kDim], kDim * sizeof(float)) == 0);
    }
  }
}

TEST(WideRowsWork) {
  Problem problem(1, 20, 100, 5000, 3);
  FakeTable table(5000, 2, 8, Problem::kFields);
  SerialFor pf;
  CheckAgainstSums(problem, table, 5000, pf);
}

// Codes 1, 2, 3, … of all keys need no sums. Nearly such codes do: two change places, one names another's key or none.
TEST(OneGradientForEachKeyInOrder) {
  const auto sgd = MakeRowOptimizer(GradientDescentOptions{1.0f});
  SerialFor pf;
  for (const int64_t n : {1, 2, 255, 256, 257, 1000}) {
    for (int change = 0; change < 4; ++change) {
      std::vector<int64_t> keys(n), codes(n), grads_of(n, 0);
      std::vector<float> grads(n * 2);
      for (int64_t i = 0; i < n; ++i) {
        keys[i] = i * 3 - 7;
        codes[i] = Code(0, i);
        grads[i * 2] = static_cast<float>(i + 1);
      }
      if (change == 1) std::swap(codes[0], codes[n - 1]);
      if (change == 2) codes[n - 1] = Code(0, 0);
      if (change == 3) codes[n - 1] = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (codes[i] != 0) grads_of[codes[i] - 1] += i + 1;
      }
      FakeTable table(2, 0, 64);
      SparseApplyBatch batch;
      batch.probes.push_back({keys.data(), nullptr, nullptr, nullptr, n});
      batch.gradients.push_back({codes.data(), grads.data(), n});
      batch.grad_dim = 2;
      EXPECT_OK(SparseApply(table, batch, *sgd, pf));
      EXPECT_EQ(static_cast<int64_t>(table.rows().size()), n);
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i) {
        const std::vector<float>& row = table.rows()[{0, keys[i]}];
        wrong += row[0] != 0.5f - static_cast<float>(grads_of[i]) || row[1] != 0.5f;
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST(KeysWithoutGradientAreInsertedAndCounted) {
  FakeTable table(2, 0, 8);
  const int64_t keys[] = {7, -1, std::numeric_limits<int64_t>::min()}, counts[] = {1, 4, 2}, codes[] = {Code(0, 1)};
  const float grad[] = {1.0f, 2.0f};
  SparseApplyBatch batch;
  batch.probes = {{keys, nullptr, counts, nullptr, 3}};
  batch.gradients = {{codes, grad, 1}};
  batch.grad_dim = 2;
  SerialFor pf;
  EXPECT_OK(SparseApply(table, batch, *MakeRowOptimizer(GradientDescentOptions{0.5f}), pf));
  EXPECT_EQ(table.rows().size(), 3u);
  EXPECT_EQ(table.frequencies()[FakeTable::Key(0, -1)], 4);
  EXPECT_EQ(table.rows()[FakeTable::Key(0, 7)][0], 0.5f);
  EXPECT_EQ(table.rows()[FakeTable::Key(0, -1)][0], 0.0f);
  EXPECT_EQ(table.rows()[FakeTable::Key(0, -1)][1], -0.5f);
}

TEST(AnEmptyBatchIsAStep) {
  FakeTable table(2, 0, 8);
  SparseApplyBatch batch;
  batch.probes = {{}, {}};
  batch.grad_dim = 2;
  SerialFor pf;
  EXPECT_OK(SparseApply(table, batch, *MakeRowOptimizer(GradientDescentOptions{0.5f}), pf));
  EXPECT_EQ(table.step(), 1);
  EXPECT_EQ(table.rows().size(), 0u);
}

TEST(WrongInputChangesNothing) {
  const auto sgd = MakeRowOptimizer(GradientDescentOptions{0.5f});
  SerialFor pf;
  for (const int64_t code : {Code(0, 3), Code(1, 0), int64_t{1} << kCodePlaceBits, int64_t{-1}, Code(5, 1)}) {
    FakeTable table(2, 0, 8);
    const int64_t keys[] = {1, 2, 3}, codes[] = {Code(0, 0), code, 0};
    const float grads[6] = {};
    SparseApplyBatch batch;
    batch.probes = {{keys, nullptr, nullptr, nullptr, 3}};
    batch.gradients = {{codes, grads, 3}};
    batch.grad_dim = 2;
    const Status status = SparseApply(table, batch, *sgd, pf);
    EXPECT_TRUE(status.code() == StatusCode::kInvalidArgument);
    EXPECT_TRUE(status.message().find("TableApplyGradientDescent 'fake': indices[1]") == 0);
    EXPECT_EQ(table.step(), 0);
  }
  {
    FakeTable table(2, 0, 8);
    const int64_t keys[] = {1}, right[] = {Code(0, 0), 0}, wrong[] = {0, Code(0, 0), Code(0, 1)};
    const float grads[6] = {};
    SparseApplyBatch batch;
    batch.probes = {{keys, nullptr, nullptr, nullptr, 1}};
    batch.gradients = {{right, grads, 2}, {}, {wrong, grads, 3}};
    batch.grad_dim = 2;
    EXPECT_TRUE(SparseApply(table, batch, *sgd, pf).message().find(": indices[2][2] is 2") != std::string::npos);
  }
  FakeTable table(2, 1, 8);
  Problem problem(1, 10, 10, 2, 4);
  EXPECT_TRUE(SparseApply(table, problem.batch, *sgd, pf).message().find("has 1 slots") != std::string::npos);
  problem.batch.grad_dim = 3;
  EXPECT_TRUE(SparseApply(table, problem.batch, *sgd, pf).message().find("grad has 3 columns") != std::string::npos);
  EXPECT_EQ(table.step(), 0);
}

TEST(CheckNumericsFindsTheFirstBadValue) {
  const auto sgd = MakeRowOptimizer(GradientDescentOptions{0.5f});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), -std::nanf(""), kInfinity, -kInfinity}) {
    for (const int64_t at : {0, 5000, 7999}) {
      Problem problem(1, 50, 4000, 2, 5);
      problem.grads[at] = problem.grads.back() = bad;
      FakeTable table(2, 0, 8);
      ThreadFor pf(2);
      EXPECT_OK(SparseApply(table, problem.batch, *sgd, pf));  // As TensorFlow: applied unless asked otherwise.
      EXPECT_EQ(table.step(), 1);
      problem.batch.check_numerics = true;
      const Status status = SparseApply(table, problem.batch, *sgd, pf);
      EXPECT_TRUE(status.code() == StatusCode::kInvalidArgument);
      EXPECT_TRUE(status.message().find("in row " + std::to_string(at / 2) + ",") != std::string::npos);
      EXPECT_EQ(table.step(), 1);
    }
  }
  Problem problem(1, 50, 4000, 2, 5);
  problem.grads[0] = std::numeric_limits<float>::max();
  problem.grads[1] = std::numeric_limits<float>::denorm_min();
  problem.batch.check_numerics = true;
  FakeTable table(2, 0, 8);
  SerialFor pf;
  EXPECT_OK(SparseApply(table, problem.batch, *sgd, pf));
}

}  // namespace
}  // namespace tf_booster
