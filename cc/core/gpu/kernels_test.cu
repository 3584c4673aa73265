// Each algorithm on the card against the same bodies on the host: the same bits. That the bodies are right is for the
// tests beside them to say. `make cuda` compiles this, `make test-cuda` runs it on a card.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/managed_array.cuh"
#include "cc/core/gpu/multi_copy_body.h"
#include "cc/core/gpu/multi_gather_body.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/optimizer/multi_apply_body.h"
#include "cc/core/optimizer/multi_sparse_apply_body.h"
#include "cc/core/optimizer/row_steps.h"
#include "cc/core/pooling/pooling_body.h"
#include "cc/core/pooling/prepare_body.h"
#include "cc/core/products/pair_dots_body.h"
#include "cc/core/unique/unique_body.h"

namespace tf_booster {
namespace gpu {
namespace {

template <class T>
ManagedArray<T> Numbers(int64_t n, int seed, T first, T step) {
  ManagedArray<T> numbers(n);
  for (int64_t i = 0; i < n; ++i) numbers[i] = first + step * T(static_cast<int>(Mix64(i * 64 + seed) % 97));
  return numbers;
}

template <class T>
bool Same(const ManagedArray<T>& a, const ManagedArray<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// What a run writes.
template <class T>
using ArraysOf = std::vector<ManagedArray<T>>;
using Floats = ArraysOf<float>;
using Words = std::vector<ManagedArray<int32_t>>;

template <class Run>
void ExpectHostsBits(const Run& run) {
  HostQueue host;
  CudaQueue card(nullptr);
  const auto want = run(host);
  const auto got = run(card);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(card.error() == nullptr);
  EXPECT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size() && i < got.size(); ++i) EXPECT_TRUE(Same(got[i], want[i]));
}

template <class Step>
struct DenseRun {
  using T = typename Step::Type;

  template <class Queue>
  ArraysOf<T> operator()(Queue& queue) const {
    ArraysOf<T> arrays;
    ManagedArray<T> scalars = Numbers<T>(6, 1, 0.1f, 0.008f);
    StepInputs<T> inputs = {};
    for (int i = 0; i < Step::kScalars; ++i) inputs.scalars[i] = &scalars[i];
    std::vector<DenseJob<Step>> jobs;
    const std::vector<int64_t> sizes = {0, 1, 3, 4, 5, 1000, 100003, 64};
    int64_t total = 0;
    for (const int64_t size : sizes) total += size;
    const ManagedArray<T> grads = Numbers<T>(total, 2, -0.7f, 0.013f);
    int64_t first = 0;
    for (const int64_t size : sizes) {
      DenseJob<Step> job;
      for (int k = 0; k <= Step::kSlots; ++k) {
        arrays.push_back(Numbers<T>(size, 3 + k, 0.5f * static_cast<float>(k + 1), 0.001f));
        job.arrays[k] = arrays.back().data();
      }
      job.grad = grads.data() + first;
      job.size = size;
      first += size;
      jobs.push_back(job);
    }
    MultiApply(queue, jobs, inputs, false);
    cudaDeviceSynchronize();  // Before the managed arrays move.
    return arrays;
  }
};

TEST(DenseStepsAreTheHosts) {
  // FTRL's power is a function of the machine's library; its root is not.
#define TFB_CHECK(Name) ExpectHostsBits(DenseRun<element::Name<float>>());
  TFB_CHECK(GradientDescent)
  TFB_CHECK(ProximalGradientDescent)
  TFB_CHECK(Momentum)
  TFB_CHECK(KerasMomentum)
  TFB_CHECK(Adagrad)
  TFB_CHECK(AdagradV2)
  TFB_CHECK(ProximalAdagrad)
  TFB_CHECK(Adadelta)
  TFB_CHECK(Adam)
  TFB_CHECK(AdamWithAmsgrad)
  TFB_CHECK(AdaMax)
  TFB_CHECK(RMSProp)
#undef TFB_CHECK
  ExpectHostsBits(DenseRun<element::Adam<Float16>>());
  ExpectHostsBits(DenseRun<element::Adam<BFloat16>>());
  ExpectHostsBits(DenseRun<element::CenteredRMSProp<Float16>>());
  ExpectHostsBits(DenseRun<element::Adadelta<BFloat16>>());
}

template <class Step>
struct SparseRun {
  SparseRule rule;

  template <class Queue>
  Floats operator()(Queue& queue) const {
    Floats arrays, grads;
    ManagedArray<float> scalars = Numbers<float>(6, 1, 0.1f, 0.008f);
    StepInputs<float> inputs = {};
    for (int i = 0; i < Step::kScalars; ++i) inputs.scalars[i] = &scalars[i];
    std::vector<SparseJob<Step>> jobs;
    std::vector<RowNumbers<int64_t>> numbers;
    std::vector<ManagedArray<int64_t>> indices;
    for (const int64_t rows : {1000, 1, 50, 0, 20000}) {
      const int64_t dim = rows == 50 ? 1 : 17, size = rows == 0 ? 0 : 5000;
      SparseJob<Step> job;
      for (int k = 0; k <= Step::kSlots; ++k) {
        arrays.push_back(Numbers<float>(rows * dim, 3 + k, 0.5f * static_cast<float>(k + 1), 0.001f));
        job.arrays[k] = arrays.back().data();
      }
      grads.push_back(Numbers<float>(size * dim, 9, -0.7f, 0.013f));
      indices.emplace_back(size);
      // Some rows are frequent, some indices are no rows.
      for (int64_t i = 0; i < size; ++i) {
        const uint64_t random = Mix64(i + rows);
        indices.back()[i] = random % 50 == 0 ? -1 : static_cast<int64_t>(random % 3 == 0 ? 0 : random % rows);
      }
      job.grads = grads.back().data();
      job.dim = dim;
      jobs.push_back(job);
      numbers.push_back({indices.back().data(), size, rows});
    }
    Scratch measure(nullptr);
    MultiSparseApply<Step, int64_t, Queue>(nullptr, jobs, numbers, inputs, rule, &measure);
    ManagedArray<char> memory(measure.used());
    Scratch scratch(memory.data());
    MultiSparseApply(&queue, jobs, numbers, inputs, rule, &scratch);
    cudaDeviceSynchronize();
    return arrays;
  }
};

TEST(SparseStepsAreTheHosts) {
  for (const bool every_row : {false, true}) {
    ExpectHostsBits(SparseRun<row::Adam<float>>{{every_row, true, false}});
    ExpectHostsBits(SparseRun<row::KerasRMSProp<float>>{{every_row, true, false}});
  }
  ExpectHostsBits(SparseRun<row::Adagrad<float>>{{false, true, false}});
  ExpectHostsBits(SparseRun<row::Momentum<float>>{{false, false, false}});
}

struct GatherRun {
  template <class Queue>
  Words operator()(Queue& queue) const {
    const ManagedArray<int32_t> params = Numbers<int32_t>(3000, 1, 5, 7);
    ManagedArray<int64_t> indices(777);
    for (int64_t i = 0; i < 777; ++i) indices[i] = static_cast<int64_t>(Mix64(i) % 110) - 5;
    Words rows;
    std::vector<GatherJob<int64_t>> jobs;
    for (const int64_t dim : {1, 3, 4, 30}) {
      rows.emplace_back(777 * dim, -1);
      GatherJob<int64_t> job;
      job.indices = indices.data();
      job.size = 777;
      job.params = reinterpret_cast<const char*>(params.data());
      job.rows = 100;
      job.row_bytes = dim * 4;
      job.out = reinterpret_cast<char*>(rows.back().data());
      jobs.push_back(job);
    }
    MultiGather(queue, jobs);
    cudaDeviceSynchronize();
    return rows;
  }
};

TEST(GathersAreTheHosts) { ExpectHostsBits(GatherRun()); }

struct CopyRun {
  template <class Queue>
  Words operator()(Queue& queue) const {
    std::vector<ManagedArray<int32_t>> arrays;
    for (int i = 0; i < 200; ++i) arrays.push_back(Numbers<int32_t>(i * i % 777, i, 5, 3));
    Words packed(1, ManagedArray<int32_t>(1 << 17, -7));
    std::vector<CopyJob> jobs;
    int64_t at = 1;
    for (const ManagedArray<int32_t>& array : arrays) {
      CopyJob job;
      job.from = reinterpret_cast<const char*>(array.data());
      job.bytes = static_cast<int64_t>(array.size() * sizeof(int32_t)) - 1;
      if (array.empty()) job.bytes = 0;
      job.to = reinterpret_cast<char*>(packed[0].data()) + at;
      job.room = job.bytes + 5;
      at += job.room;
      jobs.push_back(job);
    }
    MultiCopy(queue, jobs);
    return packed;
  }
};
TEST(PackedArraysAreTheHosts) { ExpectHostsBits(CopyRun()); }

struct CountsRun {
  template <class Queue>
  Words operator()(Queue& queue) const {
    ManagedArray<int64_t> counts = Numbers<int64_t>(5000, 3, 1, 2);
    Words narrow(1, ManagedArray<int32_t>(5000, -7));
    ForEach(queue, 4999, CopyCount<int32_t>{counts.data(), narrow[0].data()});
    return narrow;
  }
};
TEST(CountsOfUniqueAreTheHosts) { ExpectHostsBits(CountsRun()); }

struct PoolRun {
  Combiner combiner;
  bool weighted, gradient;

  template <class Queue>
  Floats operator()(Queue& queue) const {
    constexpr int64_t kRows = 500, kDistinct = 90, kDim = 19;
    ManagedArray<int32_t> splits(1, 0), idx;
    for (int64_t r = 0; r < kRows; ++r) {
      for (uint64_t i = Mix64(r) % 40; i > 0; --i) idx.push_back(static_cast<int32_t>(Mix64(r * 41 + i) % kDistinct));
      splits.push_back(static_cast<int32_t>(idx.size()));
    }
    const ManagedArray<float> weights = Numbers<float>(idx.size(), 4, 0.1f, 0.01f);
    const ManagedArray<float> in = Numbers<float>((gradient ? kRows : kDistinct) * kDim, 5, -1.0f, 0.02f);
    Floats out(1, ManagedArray<float>((gradient ? kDistinct : kRows) * kDim, -7.0f));
    PoolJob<float> job;
    job.segments.combiner = combiner;
    job.segments.rows = kRows;
    job.segments.row_splits = splits.data();
    job.segments.idx = idx.data();
    job.segments.weights = weighted ? weights.data() : nullptr;
    job.segments.distinct = kDistinct;
    job.segments.dim = kDim;
    job.ids = static_cast<int64_t>(idx.size());
    job.in = in.data();
    job.out = out[0].data();
    const std::vector<PoolJob<float>> jobs = {job};
    Scratch measure(nullptr);
    PoolGradientOnQueue<Queue>(nullptr, jobs, &measure);
    ManagedArray<char> memory(measure.used());
    Scratch scratch(memory.data());
    if (gradient) {
      PoolGradientOnQueue(&queue, jobs, &scratch);
    } else {
      PoolOnQueue(queue, jobs);
    }
    cudaDeviceSynchronize();
    return out;
  }
};

TEST(PoolingIsTheHosts) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    for (const bool weighted : {false, true}) {
      for (const bool gradient : {false, true}) ExpectHostsBits(PoolRun{combiner, weighted, gradient});
    }
  }
}

struct PairDotsRun {
  int64_t dim;
  bool backward;

  template <class Queue>
  Floats operator()(Queue& queue) const {
    constexpr int64_t kRows = 300;
    const std::vector<int64_t> widths = {1, 26}, pairs = [] {
      std::vector<int64_t> below;
      for (int64_t i = 0; i < 27; ++i) {
        for (int64_t j = 0; j < i; ++j) below.push_back(i * 27 + j);
      }
      return below;
    }();
    Floats values, out;
    PairDotsJob job;
    job.pairs = &pairs;
    job.rows = kRows;
    job.dim = dim;
    for (const int64_t width : widths) {
      values.push_back(Numbers<float>(kRows * width * dim, static_cast<int>(width), -1.0f, 0.02f));
      if (backward) out.emplace_back(kRows * width * dim, -7.0f);
    }
    ManagedArray<float> dots = Numbers<float>(kRows * static_cast<int64_t>(pairs.size()), 5, -1.0f, 0.02f);
    if (!backward) out.push_back(dots);
    job.dots = backward ? dots.data() : out[0].data();
    for (size_t p = 0; p < widths.size(); ++p) {
      job.parts.push_back({values[p].data(), widths[p]});
      if (backward) job.gradients.push_back({out[p].data(), widths[p]});
    }
    Scratch measure(nullptr);
    PairDotsOnQueue<Queue>(nullptr, job, &measure);
    ManagedArray<char> memory(measure.used());
    Scratch scratch(memory.data());
    PairDotsOnQueue(&queue, job, &scratch);
    cudaDeviceSynchronize();
    return out;
  }
};

TEST(DotsOfPairsAreTheHosts) {
  for (const int64_t dim : {16, 7}) {
    for (const bool backward : {false, true}) ExpectHostsBits(PairDotsRun{dim, backward});
  }
}

struct PrepareRun {
  template <class Queue>
  Words operator()(Queue& queue) const {
    constexpr int64_t kLookups = 30, kRows = 700, kWidth = 5;
    const LookupRules rules = {true, false, true};
    std::vector<ManagedArray<int64_t>> values;
    Words splits;
    std::vector<ManagedArray<char>> empty;
    std::vector<PrepareJob<int64_t, int64_t>> jobs;
    for (int64_t l = 0; l < kLookups; ++l) {
      values.emplace_back(kRows * kWidth);
      for (int64_t i = 0; i < kRows * kWidth; ++i)
        values[l][i] = static_cast<int64_t>(Mix64(i * kLookups + l) % 999) - 200;
      splits.emplace_back(kRows + 1);
      empty.emplace_back(kRows);
      PrepareJob<int64_t, int64_t> job;
      job.values = values[l].data();
      job.n = kRows * kWidth;
      job.default_id = 3;
      job.rows = kRows;
      job.width = kWidth;
      job.row_splits = splits[l].data();
      job.row_is_empty = reinterpret_cast<bool*>(empty[l].data());
      jobs.push_back(job);
    }
    using Halves = Preparation<Queue, int64_t, int64_t>;
    Scratch measure(nullptr);
    Halves(jobs, rules, &measure);
    ManagedArray<char> memory(measure.used());
    std::vector<PrepareCounts> counts;
    PrepareError error;
    Scratch first(memory.data());
    Halves(jobs, rules, &first).Count(queue, &counts, &error);
    EXPECT_EQ(error.lookup, -1);
    Words results = splits;
    std::vector<ManagedArray<int64_t>> ids;
    const size_t first_idx = results.size();
    for (int64_t l = 0; l < kLookups; ++l) {
      results.emplace_back(counts[l].places);
      ids.emplace_back(counts[l].distinct);
    }
    for (int64_t l = 0; l < kLookups; ++l) {
      jobs[l].idx = results[first_idx + l].data();
      jobs[l].ids = ids[l].data();
    }
    Scratch second(memory.data());
    Halves(jobs, rules, &second).Finish(queue, counts);
    cudaDeviceSynchronize();
    for (const auto& distinct : ids) results.emplace_back(distinct.begin(), distinct.end());
    return results;
  }
};

TEST(PreparedLookupsAreTheHosts) { ExpectHostsBits(PrepareRun()); }

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
