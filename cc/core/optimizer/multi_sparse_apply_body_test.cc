// The sparse GPU steps against one row after another: their bodies on the host, under nvcc the library's kernels on
// a card.
#include "cc/core/optimizer/multi_sparse_apply_body.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/testing/duplicates.h"
#include "cc/core/optimizer/row_steps.h"

namespace tf_booster {
namespace gpu {
namespace {

template <class Step, class Index>
void RunJobs(const std::vector<SparseJob<Step>>& jobs, const std::vector<RowNumbers<Index>>& numbers,
             const std::vector<JobsOfNumbers>& jobs_of, const StepInputs<typename Step::Type>& inputs,
             const SparseRule& rule, int threads) {
#if defined(__CUDACC__)
  (void)threads;
  Array<char> memory(SparseScratchBytes(jobs, numbers, jobs_of, rule), 0x55);
  EXPECT_TRUE(MultiSparseApplyAsync(jobs, numbers, jobs_of, inputs, rule, memory.data(), nullptr) == nullptr);
  WaitForCard();
#else
  Scratch measure(nullptr);
  MultiSparseApply<Step, Index, HostQueue>(nullptr, jobs, numbers, jobs_of, inputs, rule, &measure);
  std::vector<char> memory(measure.used() + 1, 0x55);
  Scratch scratch(memory.data());
  HostQueue queue(threads);
  MultiSparseApply(&queue, jobs, numbers, jobs_of, inputs, rule, &scratch);
  EXPECT_EQ(scratch.used(), measure.used());
#endif
}

struct Sizes {
  int64_t rows, dim, gradients;
  int64_t most = 0;  // Rows that gradients have; 0: all of them.
};

template <class Step, class Index>
struct Problem {
  using T = typename Step::Type;
  static constexpr int kArrays = 1 + Step::kSlots;
  std::vector<Array<T>> arrays, grads;
  std::vector<Array<Index>> indices;
  std::vector<Sizes> sizes;
  int misaligned = -1;  // Of a job's pointers (arrays, then gradients) this one is off a multiple of 16 bytes.
  Array<T> scalars = {T(0.5), T(0.25), T(0.125), T(-0.5), T(0.5), T(0.25)};
  bool flag;

  Problem(const std::vector<Sizes>& all, bool flag, bool with_bad) : sizes(all), flag(flag) {
    std::mt19937 random(7);
    for (const Sizes& s : all) {
      for (int k = 0; k < kArrays; ++k) {
        Array<T> values(s.rows * s.dim);
        for (T& v : values) v = T(0.5) + static_cast<T>(random() % 64) / 128 + static_cast<T>(k);
        arrays.push_back(values);
      }
      Array<Index> rows(s.gradients);
      for (Index& row : rows) {
        const int64_t most = s.most > 0 ? s.most : s.rows;
        row = most > 0 ? static_cast<Index>(random() % most) : Index(0);
        if (with_bad && random() % 5 == 0) row = random() % 2 == 0 ? Index(-1) : static_cast<Index>(s.rows + 3);
      }
      indices.push_back(rows);
      Array<T> g(s.gradients * s.dim);
      for (T& v : g) v = static_cast<T>(static_cast<int>(random() % 1000) - 500) / 4096;
      grads.push_back(g);
    }
  }

  StepInputs<T> Inputs() const {
    StepInputs<T> inputs = {};
    for (int i = 0; i < Step::kScalars; ++i) inputs.scalars[i] = &scalars[i];
    inputs.flag = flag;
    return inputs;
  }

  std::vector<Array<T>> Reference(const SparseRule& rule) const {
    std::vector<Array<T>> want = arrays;
    const Step step(scalars.data(), flag);
    for (size_t j = 0; j < sizes.size(); ++j) {
      std::map<int64_t, std::vector<int64_t>> places;
      for (size_t i = 0; i < indices[j].size(); ++i) {
        if (indices[j][i] >= 0 && indices[j][i] < sizes[j].rows) places[indices[j][i]].push_back(i);
      }
      if (rule.every_row) {
        for (int64_t row = 0; row < sizes[j].rows; ++row) places[row];
      }
      const int64_t dim = sizes[j].dim;
      for (const auto& [row, mine] : places) {
        for (int64_t c = 0; c < dim; ++c) {
          T v[kArrays];
          for (int k = 0; k < kArrays; ++k) v[k] = want[j * kArrays + k][row * dim + c];
          std::vector<T> steps;
          for (const int64_t place : mine) {
            const T grad = grads[j][place * dim + c];
            steps.push_back(rule.sum_duplicates ? grad + T(0) : grad);
          }
          if (rule.sum_duplicates && !steps.empty()) steps = {testing::SumInPieces(steps)};
          if (rule.every_row || !rule.sum_duplicates) {
            if (rule.every_row) step.Decay(v);
            for (const T grad : steps) {
              if (!rule.every_row) step.Decay(v);
              step.Step(grad, v);
              if (!rule.every_row) step.Finish(v);
            }
            if (rule.every_row) step.Finish(v);
          } else {
            step.Decay(v);
            step.Step(steps[0], v);
            step.Finish(v);
          }
          for (int k = 0; k < kArrays; ++k) want[j * kArrays + k][row * dim + c] = v[k];
        }
      }
    }
    return want;
  }

  // `values` an element behind a multiple of 16 bytes.
  static Array<T> Shifted(const Array<T>& values) {
    Array<T> shifted(values.size() + 1, T(-7));
    std::copy(values.begin(), values.end(), shifted.begin() + 1);
    return shifted;
  }

  void Run(const SparseRule& rule, int threads) {
    std::vector<SparseJob<Step>> jobs(sizes.size());
    std::vector<RowNumbers<Index>> numbers;
    std::vector<JobsOfNumbers> jobs_of;
    std::vector<Array<T>> shifted(sizes.size());
    for (size_t j = 0; j < sizes.size(); ++j) {
      for (int k = 0; k < kArrays; ++k) jobs[j].arrays[k] = arrays[j * kArrays + k].data();
      jobs[j].grads = grads[j].data();
      if (misaligned >= 0) {
        shifted[j] = Shifted(misaligned < kArrays ? arrays[j * kArrays + misaligned] : grads[j]);
        T* const memory = shifted[j].data() + 1;
        if (misaligned < kArrays) {
          jobs[j].arrays[misaligned] = memory;
        } else {
          jobs[j].grads = memory;
        }
      }
      jobs[j].dim = sizes[j].dim;
      numbers.push_back({indices[j].data(), sizes[j].gradients, sizes[j].rows});
      jobs_of.push_back({j, 0, {sizes[j].rows}});
    }
    RunJobs(jobs, numbers, jobs_of, Inputs(), rule, threads);
    if (misaligned < 0 || misaligned >= kArrays) return;
    for (size_t j = 0; j < sizes.size(); ++j) {
      EXPECT_TRUE(shifted[j][0] == T(-7));
      arrays[j * kArrays + misaligned].assign(shifted[j].begin() + 1, shifted[j].end());
    }
  }
};

// Bit for bit if tolerance is 0, but for NaNs: a card's have other bits.
template <class T>
bool Near(T a, T b, double tolerance) {
  if (a != a || b != b) return a != a && b != b;
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (tolerance > 0 && std::abs(static_cast<double>(a - b)) <= tolerance);
}

template <class Step, class Index>
void Check(Problem<Step, Index> problem, const SparseRule& rule, double tolerance) {
  const auto want = problem.Reference(rule);
  problem.Run(rule, 3);
  for (size_t a = 0; a < want.size(); ++a) {
    bool near = true;
    for (size_t i = 0; i < want[a].size(); ++i) near &= Near(want[a][i], problem.arrays[a][i], tolerance);
    EXPECT_TRUE(near);
  }
}

template <class Step, class Index>
void Check(const std::vector<Sizes>& sizes, const SparseRule& rule, bool flag, bool with_bad, double tolerance) {
  Check(Problem<Step, Index>(sizes, flag, with_bad), rule, tolerance);
}

const std::vector<Sizes> kFewDuplicates = {{100, 4, 300}, {0, 3, 0},   {50, 1, 0},  {1, 7, 60},
                                           {1000, 16, 3}, {17, 33, 1}, {20, 0, 10}, {3000, 1, 5000}};

TEST(UpTo64DuplicatesTheBitsAreTheCpus) {
  for (const bool every_row : {false, true}) {
    for (const bool with_bad : {false, true}) {
      for (const bool sums : {true, false}) {
        if (every_row && !sums) continue;
        const SparseRule rule = {every_row, sums, false};
        Check<row::Adam<float>, int64_t>(kFewDuplicates, rule, !every_row, with_bad, 0);
        Check<row::KerasRMSProp<double>, int32_t>(kFewDuplicates, rule, false, with_bad, 0);
        Check<row::KerasCenteredRMSProp<float>, int32_t>(kFewDuplicates, rule, false, with_bad, 0);
      }
    }
  }
  for (const bool sums : {false, true}) {
    const SparseRule rule = {false, sums, false};
    Check<row::Adagrad<float>, int32_t>(kFewDuplicates, rule, true, true, 0);
    Check<row::Ftrl<double>, int64_t>(kFewDuplicates, rule, false, false, 0);
    Check<row::Momentum<float>, int64_t>(kFewDuplicates, rule, true, true, 0);
    Check<row::CenteredRMSProp<double>, int32_t>(kFewDuplicates, rule, false, true, 0);
  }
}

template <class Step>
constexpr double kTolerance = 0;
#if defined(__CUDACC__)
// CUDA's pow is up to 4 units of the last place off: here FtrlV2 multiplies the difference of two powers below 1 by up
// to 1 and divides it by no less than 0.8.
template <class T>
constexpr double kTolerance<row::FtrlV2<T>> = 16 * std::numeric_limits<T>::epsilon();
#endif

template <class Step>
void CheckStep() {
  for (const bool every_row : {false, true}) {
    if (every_row && !Step::kEveryRow) continue;
    const SparseRule rule = {every_row, true, false};
    Check<Step, int32_t>(kFewDuplicates, rule, true, true, kTolerance<Step>);
    Check<Step, int64_t>(kFewDuplicates, rule, true, true, kTolerance<Step>);
  }
}

TEST(EveryStep) {
#if defined(__CUDACC__)
#define TFB_CHECK(Name)          \
  CheckStep<row::Name<float>>(); \
  CheckStep<row::Name<double>>();
  TFB_ROW_STEPS(TFB_CHECK)
#undef TFB_CHECK
#else
  CheckStep<row::KerasMomentum<float>>();  // Those that the other tests have not: compilers take long.
  CheckStep<row::AdagradV2<double>>();
  CheckStep<row::Adadelta<float>>();
  CheckStep<row::FtrlV2<double>>();
#endif
}

TEST(LongRowsAreSummedInPieces) {
  const std::vector<Sizes> sizes = {{10, 3, 64 * 10}, {2, 2, 1000}, {5, 1, 127, 1},    {5, 1, 128, 1}, {5, 1, 129, 1},
                                    {9, 5, 4097, 3},  {1, 1, 65},   {70, 4, 9000, 40}, {1, 8, 64}};
  for (const bool with_bad : {false, true}) {
    Check<row::GradientDescent<double>, int64_t>(sizes, {false, true, false}, false, with_bad, 0);
    Check<row::Adam<double>, int32_t>(sizes, {true, true, false}, false, with_bad, 0);
    Check<row::Adagrad<float>, int32_t>(sizes, {false, true, false}, true, with_bad, 0);
  }
}

// Rows of 16 bytes at a time, and of a column where a pointer or the number of columns does not allow that; sums that
// have other bits in another order.
template <class Step>
void CheckEveryWidth(const SparseRule& rule) {
  using T = typename Step::Type;
#if defined(__CUDACC__)
  const size_t rotations = 3;  // The PTX machine is slow.
#else
  const size_t rotations = testing::ManyDuplicates().size();
#endif
  for (size_t first = 0; first < rotations; ++first) {
    const auto counts = testing::Rotated(testing::ManyDuplicates(), first * 12 / rotations);
    const auto rows = testing::RowsWithDuplicates<Array<int32_t>>(counts, 3);
    std::vector<Sizes> sizes;
    for (const int64_t dim : {4, 1, 3, 6, 8}) {
      sizes.push_back({static_cast<int64_t>(counts.size()), dim, static_cast<int64_t>(rows.size())});
    }
    for (int misaligned = -1; misaligned <= 1 + Step::kSlots; ++misaligned) {
      Problem<Step, int32_t> problem(sizes, false, false);
      problem.misaligned = misaligned;
      std::mt19937 random(9);
      for (size_t j = 0; j < sizes.size(); ++j) {
        problem.indices[j] = rows;
        for (T& v : problem.grads[j]) v = testing::NumberOfAnySize<T>(&random);
      }
      Check(problem, rule, 0);
    }
  }
}

TEST(PacksAndColumnsAddInOneOrder) {
  CheckEveryWidth<row::GradientDescent<float>>({false, true, false});
  CheckEveryWidth<row::Momentum<double>>({false, true, false});
  CheckEveryWidth<row::Momentum<float>>({false, false, false});
  CheckEveryWidth<row::Adam<float>>({true, true, false});
}

TEST(ResultsDoNotDependOnThreads) {
  const std::vector<Sizes> sizes = {{70, 2, 9000, 40}, {9, 5, 4097, 3}};
  const SparseRule rule = {false, true, false};
  Problem<row::Adagrad<float>, int64_t> first(sizes, true, false);
  Problem<row::Adagrad<float>, int64_t> second = first;
  first.Run(rule, 1);
  second.Run(rule, 4);
  EXPECT_TRUE(first.arrays == second.arrays);
}

TEST(HundredsOfVariables) {
  std::vector<Sizes> sizes;
  for (int64_t i = 0; i < 300; ++i) sizes.push_back({1 + i % 13, 1 + i % 5, i % 31});
  Check<row::RMSProp<float>, int64_t>(sizes, {false, true, false}, false, true, 0);
}

// A table whose rows several Variables have is the whole one, row by row; what none of them has is passed over.
template <class Step, class Index>
void CheckParts(const Sizes& sizes, int64_t parts, bool mod, const SparseRule& rule, bool with_first) {
  using T = typename Step::Type;
  const Problem<Step, Index> whole({sizes}, false, true);
  const auto want = whole.Reference(rule);
  const RowParts table = {parts, sizes.rows, mod};
  constexpr int kArrays = 1 + Step::kSlots;
  std::vector<Array<T>> memory;
  for (int64_t p = 0; p < parts; ++p) {
    for (int k = 0; k < kArrays; ++k) memory.emplace_back(table.Size(p) * sizes.dim);
  }
  const auto at = [&](int64_t id, int k) {
    const RowParts::Row row = table.RowOf(id);
    return memory[row.part * kArrays + k].data() + row.row * sizes.dim;
  };
  for (int64_t id = 0; id < sizes.rows; ++id) {
    for (int k = 0; k < kArrays; ++k) std::copy_n(whole.arrays[k].data() + id * sizes.dim, sizes.dim, at(id, k));
  }
  const int64_t first = with_first ? 0 : 1;
  std::vector<SparseJob<Step>> jobs;
  JobsOfNumbers of = {0, table.Begin(first), {}};
  for (int64_t p = first; p < parts; ++p) {
    SparseJob<Step> job;
    for (int k = 0; k < kArrays; ++k) job.arrays[k] = memory[p * kArrays + k].data();
    job.grads = whole.grads[0].data();
    job.dim = sizes.dim;
    jobs.push_back(job);
    of.parts.push_back(table.Size(p));
  }
  const std::vector<RowNumbers<Index>> numbers = {
      {whole.indices[0].data(), sizes.gradients, sizes.rows, mod ? static_cast<int32_t>(parts) : 1}};
  RunJobs(jobs, numbers, {of}, whole.Inputs(), rule, 3);
  bool same = true;
  for (int64_t id = 0; id < sizes.rows; ++id) {
    for (int k = 0; k < kArrays; ++k) {
      const auto& expected = table.RowOf(id).part < first ? whole.arrays : want;
      for (int64_t c = 0; c < sizes.dim; ++c) same &= Near(expected[k][id * sizes.dim + c], at(id, k)[c], 0);
    }
  }
  EXPECT_TRUE(same);
}

TEST(TablesInParts) {
  for (const bool mod : {false, true}) {
    for (const bool with_first : {true, false}) {
      CheckParts<row::Adagrad<float>, int64_t>({101, 4, 700}, 4, mod, {false, true, false}, with_first);
      CheckParts<row::Adagrad<float>, int32_t>({30, 3, 5000, 5}, 7, mod, {false, true, false}, with_first);
      CheckParts<row::Momentum<double>, int64_t>({20, 5, 300}, 3, mod, {false, false, false}, with_first);
      CheckParts<row::Adam<float>, int32_t>({60, 8, 9000, 40}, 8, mod, {true, true, false}, with_first);
    }
  }
}

TEST(OneVariableTwiceStepsTwice) {
  using Step = row::GradientDescent<float>;
  Array<float> value(4, 1.0f);
  const Array<float> grads = {1, 2, 4, 8}, lr = {0.5f};
  const Array<int32_t> indices = {1, 1};
  SparseJob<Step> job;
  job.arrays[0] = value.data();
  job.grads = grads.data();
  job.dim = 2;
  const std::vector<RowNumbers<int32_t>> numbers(2, {indices.data(), 2, 2});
  RunJobs<Step>({job, job}, numbers, {{0, 0, {2}}, {1, 0, {2}}}, {{lr.data()}, false}, {false, true, true}, 1);
  EXPECT_TRUE((value == Array<float>{1, 1, -4, -9}));
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
