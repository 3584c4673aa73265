// What the fused kernels move per second, beside a copy within the card's memory: `<name> <GB/s> <share of the copy>`.
//
//   kernels_bench_cuda [elements = 33554432]
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cc/core/gpu/bench.cuh"
#include "cc/core/gpu/multi_gather_gpu.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/optimizer/element_steps.h"
#include "cc/core/optimizer/multi_apply_gpu.h"
#include "cc/core/optimizer/multi_sparse_apply_gpu.h"
#include "cc/core/optimizer/row_steps.h"
#include "cc/core/pooling/pooling_gpu.h"
#include "cc/core/pooling/prepare_gpu.h"
#include "cc/core/products/field_sums_gpu.h"

namespace tf_booster {
namespace gpu {
namespace {

constexpr int64_t kDim = 32;

void Benchmarks(int64_t elements) {
  const double size = static_cast<double>(elements) * sizeof(float);
  float *value = OnCard<float>(elements), *m = OnCard<float>(elements), *v = OnCard<float>(elements);
  float* grad = OnCard<float>(elements);
  const float* const scalars = OnCard<float>({0.9f, 0.999f, 0.001f, 0.9f, 0.999f, 1e-8f});
  StepInputs<float> inputs = {};
  for (int i = 0; i < 6; ++i) inputs.scalars[i] = scalars + i;
  Report("copy", 2 * size, [&] {
    const cudaError_t error = cudaMemcpyAsync(value, grad, elements * sizeof(float), cudaMemcpyDeviceToDevice);
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  });

  using Adam = element::Adam<float>;
  for (const int64_t tensors : {1, 100}) {
    std::vector<DenseJob<Adam>> jobs(tensors);
    for (int64_t i = 0; i < tensors; ++i) {
      const int64_t first = elements / tensors / 4 * 4 * i;
      jobs[i].arrays[0] = value + first;
      jobs[i].arrays[1] = m + first;
      jobs[i].arrays[2] = v + first;
      jobs[i].grad = grad + first;
      jobs[i].size = elements / tensors / 4 * 4;
    }
    char name[64];
    std::snprintf(name, sizeof(name), "Adam, %lld variables", static_cast<long long>(tensors));
    Report(name, 7 * size, [&] { return MultiApplyAsync(jobs, inputs, false, nullptr); });
  }

  // A quarter of the rows, drawn with duplicates.
  const int64_t rows = elements / kDim, picked = rows / 4;
  std::vector<int64_t> host_indices(picked);
  for (int64_t i = 0; i < picked; ++i) host_indices[i] = static_cast<int64_t>(Mix64(i) % rows);
  const int64_t* const indices = OnCard(host_indices);
  const double picked_bytes = static_cast<double>(picked * kDim) * sizeof(float);
  GatherJob<int64_t> gather;
  gather.indices = indices;
  gather.size = picked;
  gather.params = reinterpret_cast<const char*>(value);
  gather.table.rows = rows;
  gather.row_bytes = kDim * sizeof(float);
  gather.out = reinterpret_cast<char*>(grad);
  Report("gather, dim 32", 2 * picked_bytes, [&] { return MultiGatherAsync<int64_t>({gather}, nullptr); });

  using Adagrad = row::Adagrad<float>;
  SparseJob<Adagrad> job;
  job.arrays[0] = value;
  job.arrays[1] = m;
  job.grads = grad;
  job.dim = kDim;
  const std::vector<RowNumbers<int64_t>> numbers = {{indices, picked, rows}};
  const std::vector<JobsOfNumbers> jobs_of = {{0, 0, {rows}}};
  const SparseRule rule;
  char* scratch = OnCard<char>(SparseScratchBytes<Adagrad>({job}, numbers, jobs_of, rule));
  Report("sparse Adagrad, dim 32", 5 * picked_bytes,
         [&] { return MultiSparseApplyAsync<Adagrad>({job}, numbers, jobs_of, inputs, rule, scratch, nullptr); });

  std::vector<int32_t> splits(picked / 8 + 1), idx(picked / 8 * 8);
  for (size_t r = 0; r < splits.size(); ++r) splits[r] = static_cast<int32_t>(8 * r);
  for (size_t i = 0; i < idx.size(); ++i) idx[i] = static_cast<int32_t>(Mix64(i) % picked);
  PoolJob<float> pool;
  pool.segments.combiner = Combiner::kMean;
  pool.segments.rows = static_cast<int64_t>(splits.size()) - 1;
  pool.segments.row_splits = OnCard(splits);
  pool.segments.idx = OnCard(idx);
  pool.segments.distinct = picked;
  pool.segments.dim = kDim;
  pool.ids = static_cast<int64_t>(idx.size());
  pool.in = grad;
  pool.out = v;
  Report("mean of 8 rows, dim 32", picked_bytes * 9 / 8, [&] { return PoolAsync<float>({pool}, nullptr); });
  pool.in = v;
  pool.out = grad;
  char* memory = OnCard<char>(PoolGradientScratchBytes<float>({pool}));
  Report("its gradient", picked_bytes * 2, [&] { return PoolGradientAsync<float>({pool}, memory, nullptr); });
}

// A DeepFM's: the first-order weight in front of 16 columns, a join with 13 numbers, and the tower's gradient.
void FieldSumsBenchmarks(int64_t elements) {
  constexpr int64_t kFields = 26, kColumns = 16, kWidth = kColumns + 1, kNumbers = 13;
  constexpr int64_t kWide = kFields * kColumns + kNumbers;
  const int64_t rows = elements / (kFields * kWidth), all = rows * kFields * kWidth;
  float *x = OnCard<float>(all), *gradient = OnCard<float>(all), *of_columns = OnCard<float>(2 * rows * kColumns);
  float *joined = OnCard<float>(rows * kWide), *numbers = OnCard<float>(rows * kNumbers);
  const Fields fields = {x, rows, kFields, kWidth};
  FieldSums sums;
  sums.columns = {1, kColumns};
  sums.sums = of_columns;
  sums.square_sums = of_columns + rows * kColumns;
  sums.joined = joined;
  sums.join_width = kWide;
  sums.before = {{numbers, kNumbers}};
  const auto bytes = [&](int64_t values) { return static_cast<double>(values * static_cast<int64_t>(sizeof(float))); };
  Report("sums over 26 fields, dim 16", bytes(all + rows * (2 * kColumns + kNumbers + kWide)),
         [&] { return SumFieldsAsync(fields, sums, {}, nullptr); });
  const FieldRange vectors = {kColumns,
                              {{FieldTerm::kSum, sums.sums, kColumns},
                               {FieldTerm::kSquareSum, sums.square_sums, kColumns},
                               {FieldTerm::kWhole, joined + kNumbers, kWide}}};
  const std::vector<FieldRange> ranges = {{1, {{FieldTerm::kSum, numbers, kNumbers}}}, vectors};
  Report("their gradient", bytes(2 * all + rows * (2 * kColumns + kWide)),
         [&] { return SumFieldsGradientAsync(fields, ranges, gradient, nullptr); });
}

// The ids of 26 features of a batch, an id an example, by a power law of exponent 1 that ends at 200,000.
void PreparationBenchmarks(int64_t elements) {
  constexpr int kFeatures = 26;
  const int64_t rows = elements / 512;
  std::vector<PrepareJob<int64_t, int64_t>> jobs(kFeatures);
  for (int f = 0; f < kFeatures; ++f) {
    std::vector<int64_t> ids(rows);
    for (int64_t i = 0; i < rows; ++i) {
      const double drawn = static_cast<double>(Mix64(f * rows + i) >> 11) * 0x1p-53;
      ids[i] = static_cast<int64_t>(std::pow(200000.0, drawn)) - 1;
    }
    jobs[f].values = OnCard(ids);
    jobs[f].n = jobs[f].rows = rows;
    jobs[f].width = 1;
    jobs[f].row_splits = OnCard<int32_t>(rows + 1);
    jobs[f].row_is_empty = OnCard<bool>(rows);
    jobs[f].idx = OnCard<int32_t>(rows);
    jobs[f].ids = OnCard<int64_t>(rows);
  }
  const LookupRules rules = {true, false, true};
  char* scratch = OnCard<char>(PrepareScratchBytes(jobs, rules));
  std::vector<PrepareCounts> counts;
  PrepareError error;
  ReportKeys("26 lookups prepared", static_cast<double>(kFeatures * rows), 8 + 4 + 4 + 1 + 8, [&] {
    const char* failed = PrepareLookups(jobs, rules, scratch, nullptr, &counts, &error);
    return failed != nullptr ? failed : FinishLookupsAsync(jobs, rules, scratch, nullptr, counts);
  });
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "no CUDA device\n");
    return 1;
  }
  const int64_t elements = argc > 1 ? std::atoll(argv[1]) : int64_t{1} << 25;
  tf_booster::gpu::Benchmarks(elements);
  tf_booster::gpu::FieldSumsBenchmarks(elements);
  tf_booster::gpu::PreparationBenchmarks(elements);
  return 0;
}
