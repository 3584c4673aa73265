// The table on the card, beside a copy: bytes are what must move, as `find: 8 + 64 + 8 * dim a key`.
//
//   gpu_table_bench_cuda [rows = 8388608]
#include <cstdlib>
#include <memory>

#include "cc/core/gpu/bench.cuh"
#include "cc/core/gpu/cuda_allocator.cuh"
#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/optimizer/table_apply_gpu.h"

namespace tf_booster {
namespace gpu {
namespace {

constexpr int64_t kBatch = 1 << 20;

struct FillKeys {
  int64_t* keys;
  int64_t first, step;
  TFB_HOST_DEVICE void operator()(int64_t i) const { keys[i] = static_cast<int64_t>(Mix64(first + i * step)); }
};

[[noreturn]] void Stop(const Status& status) {
  std::fprintf(stderr, "failed: %s\n", status.message().c_str());
  std::exit(1);
}
const char* Checked(const Status& status) {
  if (!status.ok()) Stop(status);
  return nullptr;
}

// Adam's rows; every key of the batch is in the table.
void Benchmarks(int64_t rows, int64_t dim) {
  TableOptions options;
  options.name = "bench";
  options.dim = dim;
  options.slot_initial_values = {0.0f, 0.0f};
  options.fields.resize(1);
  options.fields[0].initializer = {InitializerKind::kTruncatedNormal, 0.0f, 0.1f};
  GpuTableConfig config;
  config.allocator = CudaAllocator();
  std::unique_ptr<GpuTable> table;
  Checked(NewGpuTable(options, &table, config));
  CudaQueue queue(nullptr);
  int64_t *keys = OnCard<int64_t>(kBatch), *codes = OnCard<int64_t>(kBatch), *handles = OnCard<int64_t>(kBatch);
  float *out = OnCard<float>(kBatch * dim), *scalars = OnCard<float>(6);
  const float adam[] = {0.9f, 0.999f, 0.001f, 0.9f, 0.999f, 1e-8f};
  queue.FromHost(adam, 6, scalars);
  const auto nothing = [](const DeviceState&, const uint32_t*) { return Status(); };
  for (int64_t first = 0; first < rows; first += kBatch) {
    ForEach(queue, kBatch, FillKeys{keys, first, 1});
    Checked(table->UpdateAsync({{keys, nullptr, kBatch}, nullptr, nullptr, {}}, nothing));
  }
  ForEach(queue, kBatch, FillKeys{keys, 0, rows / kBatch});
  std::vector<int64_t> order(kBatch);
  for (int64_t i = 0; i < kBatch; ++i) order[i] = i + 1;
  queue.FromHost(order.data(), kBatch, codes);
  const DeviceKeys batch = {keys, nullptr, kBatch};
  const double n = static_cast<double>(kBatch), row = 4.0 * static_cast<double>(dim);
  char name[64];
  const auto report = [&](const char* what, double bytes, auto run) {
    std::snprintf(name, sizeof(name), "%s, dim %lld", what, static_cast<long long>(dim));
    Report(name, bytes, [&] { return Checked(run()); });
  };
  report("find", n * (8 + 64 + 2 * row), [&] { return table->FindAsync(batch, out, nullptr); });
  report("handles", n * (8 + 64 + 8), [&] { return table->FindHandlesAsync(batch, handles); });
  report("gather by handles", n * (16 + 2 * row), [&] {
    return table->GatherAsync(batch, handles, {{codes, kBatch, out}});
  });
  SparseApplyBatch step;
  step.probes = {{keys, nullptr, nullptr, handles, kBatch}};
  step.gradients = {{codes, out, kBatch}};
  step.grad_dim = dim;
  StepInputs<float> inputs = {};
  for (int i = 0; i < 6; ++i) inputs.scalars[i] = scalars + i;
  report("Adam", n * 7 * row,
         [&] { return TableApplyAsync<table_step::Adam>(*table, step, inputs, CudaAllocator(), nullptr); });
  for (void* memory : {static_cast<void*>(keys), static_cast<void*>(codes), static_cast<void*>(handles),
                       static_cast<void*>(out), static_cast<void*>(scalars)}) {
    cudaFree(memory);
  }
}

void Copy() {
  constexpr int64_t kFloats = int64_t{1} << 28;
  float *from = OnCard<float>(kFloats), *to = OnCard<float>(kFloats);
  Report("copy", 2.0 * kFloats * sizeof(float), [&] {
    const cudaError_t error = cudaMemcpyAsync(to, from, kFloats * sizeof(float), cudaMemcpyDeviceToDevice);
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  });
  cudaFree(from);
  cudaFree(to);
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster

int main(int argc, char** argv) {
  tf_booster::gpu::Copy();
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : int64_t{1} << 23;
  for (const int64_t dim : {16, 64, 128}) tf_booster::gpu::Benchmarks(rows, dim);
}
