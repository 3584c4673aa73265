// The table on the card, beside a copy: bytes are what must move, as `find: 8 + 64 + 8 * dim a key`.
//
//   gpu_table_bench_cuda [rows]      a power of two; without it 8388608, or what two thirds of the card hold
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "cc/core/base/capped_allocator.h"
#include "cc/core/gpu/bench.cuh"
#include "cc/core/gpu/cuda_allocator.cuh"
#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/hash_table/gpu/card_memory.h"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/optimizer/table_apply_gpu.h"
#include "cc/core/unique/unique_gpu.h"

namespace tf_booster {
namespace gpu {
namespace {

constexpr int64_t kBatch = 1 << 20;

// Keys of numbers first, first + 1, …
struct FillKeys {
  int64_t* keys;
  int64_t first;
  TFB_HOST_DEVICE void operator()(int64_t i) const { keys[i] = static_cast<int64_t>(Mix64(first + i)); }
};

// Distinct keys of numbers below `rows`, a power of two, all over the rows: in order of insertion rows would be read in
// order of addresses. Of each hundred the first `fresh` are new ones, of numbers from `first` on.
struct DrawKeys {
  int64_t* keys;
  uint64_t rows;
  int64_t fresh = 0, first = 0;
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const bool is_new = i % 100 < fresh;
    const uint64_t drawn = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u & (rows - 1);
    keys[i] = static_cast<int64_t>(Mix64(is_new ? static_cast<uint64_t>(first + i / 100 * fresh + i % 100) : drawn));
  }
};

[[noreturn]] void Stop(const Status& status) {
  std::fprintf(stderr, "failed: %s\n", status.message().c_str());
  std::exit(1);
}
const char* Checked(const Status& status) {
  if (!status.ok()) Stop(status);
  return nullptr;
}

// Keys of a table of `rows`, by a power law of exponent 1.05 that ends there.
std::vector<int64_t> PowerLawIds(int64_t rows) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  const double tail = std::pow(static_cast<double>(rows), -0.05) - 1;
  std::vector<int64_t> ids(kBatch);
  for (int64_t& id : ids) {
    id = static_cast<int64_t>(Mix64(static_cast<uint64_t>(std::pow(1 + uniform(random) * tail, -20.0)) - 1));
  }
  return ids;
}

// What the ops of a training step start: the parts, and the whole.
class TrainingStep {
 public:
  TrainingStep(GpuTable* table, int64_t rows, int64_t dim, const StepInputs<float>& inputs)
      : table_(*table), dim_(dim), inputs_(inputs), rows_(OnCard<float>(kBatch * dim)) {
    CudaQueue queue(nullptr);
    const std::vector<int64_t> ids = PowerLawIds(rows);
    queue.FromHost(ids.data(), kBatch, ids_);
    jobs_[0].values = ids_;
    jobs_[0].idx = codes_;
    jobs_[0].units = kBatch;
    scratch_ = OnCard<char>(UniqueScratchBytes(jobs_));
    int64_t distinct = 0;
    UniqueFindAsync(jobs_, scratch_, nullptr, &distinct);
    std::printf("a step of %lld ids, %lld distinct, dim %lld:\n", static_cast<long long>(kBatch),
                static_cast<long long>(distinct), static_cast<long long>(dim));
  }
  ~TrainingStep() {
    for (void* memory : {static_cast<void*>(ids_), static_cast<void*>(codes_), static_cast<void*>(keys_),
                         static_cast<void*>(fields_), static_cast<void*>(counts_), static_cast<void*>(handles_),
                         static_cast<void*>(rows_), static_cast<void*>(scratch_)}) {
      cudaFree(memory);
    }
  }

  const char* Unique() {
    if (const char* error = UniqueFindAsync(jobs_, scratch_, nullptr, nullptr)) return error;
    return UniqueWriteAsync<int64_t, int64_t>(jobs_, 1, {keys_, fields_, counts_}, scratch_, nullptr);
  }
  const char* Lookup() {
    if (const char* error = Unique()) return error;
    Checked(table_.FindHandlesAsync(Keys(), handles_));
    return Checked(table_.GatherAsync(Keys(), handles_, {{codes_, kBatch, rows_}}));
  }
  // The rows that were looked up are the gradients.
  const char* All() {
    if (const char* error = Lookup()) return error;
    SparseApplyBatch batch;
    batch.probes = {{keys_, fields_, counts_, handles_, kBatch}};
    batch.gradients = {{codes_, rows_, kBatch}};
    batch.grad_dim = dim_;
    return Checked(TableApplyAsync<table_step::Adam>(table_, batch, inputs_, KeptCudaMemory(), nullptr));
  }
  void Run() {
    ReportTime("  unique", [&] { return Unique(); });
    ReportTime("  unique, find, gather", [&] { return Lookup(); });
    ReportTime("  all, with Adam", [&] { return All(); });
  }

 private:
  DeviceKeys Keys() const { return {keys_, fields_, kBatch}; }

  GpuTable& table_;
  const int64_t dim_;
  const StepInputs<float> inputs_;
  int64_t* const ids_ = OnCard<int64_t>(kBatch);
  int64_t* const codes_ = OnCard<int64_t>(kBatch);
  int64_t* const keys_ = OnCard<int64_t>(kBatch);
  uint32_t* const fields_ = OnCard<uint32_t>(kBatch);
  int64_t* const counts_ = OnCard<int64_t>(kBatch);
  int64_t* const handles_ = OnCard<int64_t>(kBatch);
  float* const rows_;
  char* scratch_ = nullptr;
  std::vector<UniqueJob<int64_t, int64_t>> jobs_{1};
};

TableOptions AdamOptions(int64_t dim) {
  TableOptions options;
  options.name = "bench";
  options.dim = dim;
  options.slot_initial_values = {0.0f, 0.0f};
  options.fields.resize(1);
  options.fields[0].initializer = {InitializerKind::kTruncatedNormal, 0.0f, 0.1f};
  return options;
}

// A quarter of the rows are on the card. At first they are the wrong ones: those of frequent keys came last.
void RowsInHostMemory(int64_t rows, int64_t dim) {
  CappedAllocator quarter(CudaAllocator(), rows / 4 * 3 * dim * static_cast<int64_t>(sizeof(float)));
  GpuTableConfig config;
  config.allocator = KeptCudaMemory();
  config.row_allocator = &quarter;
  config.host_allocator = PinnedMemory();
  std::unique_ptr<GpuTable> table;
  Checked(NewGpuTable(AdamOptions(dim), &table, config));
  CudaQueue queue(nullptr);
  int64_t* const keys = OnCard<int64_t>(kBatch);
  float* const scalars = OnCard<float>(6);
  const float adam[] = {0.9f, 0.999f, 0.001f, 0.9f, 0.999f, 1e-8f};
  queue.FromHost(adam, 6, scalars);
  StepInputs<float> inputs = {};
  for (int i = 0; i < 6; ++i) inputs.scalars[i] = scalars + i;
  for (int64_t first = rows - kBatch; first >= 0; first -= kBatch) {
    ForEach(queue, kBatch, FillKeys{keys, first});
    Checked(table->UpdateAsync({{keys, nullptr, kBatch}, nullptr, nullptr, {}},
                               [](const DeviceState&, const uint32_t*) { return Status(); }));
  }
  TrainingStep step(table.get(), rows, dim, inputs);
  ReportTime("  a quarter on the card, the wrong one: unique, find, gather", [&] { return step.Lookup(); });
  for (int i = 0; i < 3 * static_cast<int>(config.swap_steps); ++i) {
    if (const char* error = step.All()) Stop(Status(StatusCode::kInternal, error));
  }
  ReportTime("  the right one: unique, find, gather", [&] { return step.Lookup(); });
  ReportTime("  the right one: all, with Adam", [&] { return step.All(); });
  cudaFree(keys);
  cudaFree(scalars);
}

// Adam's rows; every key of the batch is in the table.
void Benchmarks(int64_t rows, int64_t dim) {
  GpuTableConfig config;
  config.allocator = KeptCudaMemory();
  std::unique_ptr<GpuTable> table;
  Checked(NewGpuTable(AdamOptions(dim), &table, config));
  CudaQueue queue(nullptr);
  int64_t *keys = OnCard<int64_t>(kBatch), *codes = OnCard<int64_t>(kBatch), *handles = OnCard<int64_t>(kBatch);
  float *out = OnCard<float>(kBatch * dim), *scalars = OnCard<float>(6);
  const float adam[] = {0.9f, 0.999f, 0.001f, 0.9f, 0.999f, 1e-8f};
  queue.FromHost(adam, 6, scalars);
  const DeviceKeys batch = {keys, nullptr, kBatch};
  const auto insert = [&] {
    return table->UpdateAsync({batch, nullptr, nullptr, {}},
                              [](const DeviceState&, const uint32_t*) { return Status(); });
  };
  int64_t inserted = 0;
  for (; inserted < rows; inserted += kBatch) {
    ForEach(queue, kBatch, FillKeys{keys, inserted});
    Checked(insert());
  }
  ForEach(queue, kBatch, DrawKeys{keys, static_cast<uint64_t>(rows)});
  std::vector<int64_t> order(kBatch);
  for (int64_t i = 0; i < kBatch; ++i) order[i] = i + 1;
  queue.FromHost(order.data(), kBatch, codes);
  const double row = 4.0 * static_cast<double>(dim);
  char name[64];
  const auto report = [&](const char* what, double bytes, auto run) {
    std::snprintf(name, sizeof(name), "%s, dim %lld", what, static_cast<long long>(dim));
    ReportKeys(name, static_cast<double>(kBatch), bytes, [&] { return Checked(run()); });
  };
  report("find", 8 + 64 + 2 * row, [&] { return table->FindAsync(batch, out, nullptr); });
  report("handles", 8 + 64 + 8, [&] { return table->FindHandlesAsync(batch, handles); });
  report("gather by handles", 16 + 2 * row, [&] { return table->GatherAsync(batch, handles, {{codes, kBatch, out}}); });
  SparseApplyBatch step;
  step.probes = {{keys, nullptr, nullptr, handles, kBatch}};
  step.gradients = {{codes, out, kBatch}};
  step.grad_dim = dim;
  StepInputs<float> inputs = {};
  for (int i = 0; i < 6; ++i) inputs.scalars[i] = scalars + i;
  report("Adam", 7 * row,
         [&] { return TableApplyAsync<table_step::Adam>(*table, step, inputs, KeptCudaMemory(), nullptr); });
  TrainingStep(table.get(), rows, dim, inputs).Run();
  // The last: the table grows. Two of a hundred keys are new, and a key is inserted by no second run.
  const auto load = [&] {
    const TableStats stats = table->Stats();
    return static_cast<double>(stats.rows) / static_cast<double>(stats.index_capacity);
  };
  const auto find_or_insert = [&] {
    char what[64];
    std::snprintf(what, sizeof(what), "find_or_insert at load %.2f", load());
    report(what, 8 + 64, [&] {
      ForEach(queue, kBatch, DrawKeys{keys, static_cast<uint64_t>(rows), 2, inserted});
      inserted += kBatch / 100 * 2 + 2;
      return insert();
    });
  };
  find_or_insert();
  while (load() < 0.65) {
    ForEach(queue, kBatch, FillKeys{keys, inserted});
    inserted += kBatch;
    Checked(insert());
  }
  find_or_insert();
  for (void* memory : {static_cast<void*>(keys), static_cast<void*>(codes), static_cast<void*>(handles),
                       static_cast<void*>(out), static_cast<void*>(scalars)}) {
    cudaFree(memory);
  }
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster

int main(int argc, char** argv) {
  tf_booster::gpu::ReportCopy(int64_t{1} << 28);
  int64_t rows = argc > 1 ? std::atoll(argv[1]) : int64_t{1} << 23;
  size_t left = 0, all = 0;
  if (cudaMemGetInfo(&left, &all) != cudaSuccess) return 1;
  // Rows of 3 * 128 floats, up to 1.6 times as many as `rows` in the end, in an index of 1.5 entries a row, and its
  // predecessor while it grows.
  while (argc <= 1 && static_cast<double>(rows) * 1.6 * (3 * 128 * 4 + 80) > static_cast<double>(left) / 3 * 2)
    rows /= 2;
  for (const int64_t dim : {16, 64, 128}) tf_booster::gpu::Benchmarks(rows, dim);
  for (const int64_t dim : {16, 128}) tf_booster::gpu::RowsInHostMemory(rows, dim);
}
