// What the fused kernels move per second, beside a copy within the card's memory: `<name> <GB/s> <share of the copy>`.
//
//   kernels_bench_cuda [elements = 33554432]
#include <cuda_runtime.h>

#include <algorithm>
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
  gather.rows = rows;
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
  const SparseRule rule;
  char* scratch = OnCard<char>(SparseScratchBytes<Adagrad>({job}, numbers, rule));
  Report("sparse Adagrad, dim 32", 5 * picked_bytes,
         [&] { return MultiSparseApplyAsync<Adagrad>({job}, numbers, inputs, rule, scratch, nullptr); });

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

}  // namespace
}  // namespace gpu
}  // namespace tf_booster

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "no CUDA device\n");
    return 1;
  }
  tf_booster::gpu::Benchmarks(argc > 1 ? std::atoll(argv[1]) : int64_t{1} << 25);
  return 0;
}
