// What a training step does with a table on the card, phase by phase and of any size, so that cc/ptx_machine can count
// it (tools/gpu_estimates.py); on a card it tells times. gpu_table_bench.cu measures more, of sizes too large for that.
//
//   table_phases_bench [dim = 64 [ids = 1048576 [rows = 8 * ids]]]      rows: a power of two
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "cc/core/gpu/bench.cuh"
#include "cc/core/gpu/cuda_allocator.cuh"
#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/optimizer/table_apply_gpu.h"
#include "cc/core/unique/unique_gpu.h"

namespace tf_booster {
namespace gpu {
namespace {

const char* Checked(const Status& status) {
  if (!status.ok()) Fail(status.message().c_str());
  return nullptr;
}

// All rows, a batch at a time, in any order of addresses.
class Phases {
 public:
  Phases(int64_t dim, int64_t ids, int64_t rows, const std::vector<float>& slots)
      : dim_(dim), ids_(ids), rows_(rows), host_(ids), host_fields_(ids) {
    TableOptions options;
    options.name = "phases";
    options.dim = dim;
    options.slot_initial_values = slots;
    // Random values take long to count: only new keys of a step, which are the second field's, have them.
    options.fields.resize(2);
    options.fields[0].name = "known";
    options.fields[1].name = "new";
    options.fields[1].initializer = {InitializerKind::kTruncatedNormal, 0.0f, 0.1f};
    GpuTableConfig config;
    config.allocator = KeptCudaMemory();
    Checked(NewGpuTable(options, &table_, config));
    for (; inserted_ < rows; inserted_ += ids) {
      Send([&](int64_t i) { return static_cast<uint64_t>(inserted_ + i); });
      Checked(Insert());
    }
    DrawKeys();
    std::vector<int64_t> order(ids);
    for (int64_t i = 0; i < ids; ++i) order[i] = i + 1;
    queue_.FromHost(order.data(), ids, codes_);
    const float scalars[] = {0.9f, 0.999f, 0.001f, 0.9f, 0.999f, 1e-8f};
    queue_.FromHost(scalars, 6, scalars_);
    for (int i = 0; i < 6; ++i) inputs_.scalars[i] = scalars_ + i;
  }

  void Lookups() {
    const double row = RowBytes();
    Phase("find", 8 + 64 + 2 * row, [&] { return table_->FindAsync(Keys(), out_, nullptr); });
    Phase("handles", 8 + 64 + 8, [&] { return table_->FindHandlesAsync(Keys(), handles_); });
    Phase("gather", 16 + 2 * row, [&] { return table_->GatherAsync(Keys(), handles_, {{codes_, ids_, out_}}); });
  }

  template <class Step>
  void Apply(const char* name, double bytes) {
    Checked(table_->FindHandlesAsync(Keys(), handles_));
    SparseApplyBatch batch;
    batch.probes = {{keys_, nullptr, nullptr, handles_, ids_}};
    batch.gradients = {{codes_, out_, ids_}};
    batch.grad_dim = dim_;
    Phase(name, bytes, [&] { return TableApplyAsync<Step>(*table_, batch, inputs_, KeptCudaMemory(), nullptr); });
  }

  // Ids by a power law of exponent 1.05 that ends at the table's rows.
  void Unique() {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> uniform(0, 1);
    const double tail = std::pow(static_cast<double>(rows_), -0.05) - 1;
    int64_t* const values = OnCard<int64_t>(ids_);
    Send([&](int64_t) { return static_cast<uint64_t>(std::pow(1 + uniform(random) * tail, -20.0)) - 1; }, values);
    std::vector<UniqueJob<int64_t, int64_t>> jobs(1);
    jobs[0].values = values;
    jobs[0].idx = codes_;
    jobs[0].units = ids_;
    int64_t* const counts = OnCard<int64_t>(ids_);
    char* const scratch = OnCard<char>(UniqueScratchBytes(jobs));
    ReportKeys("unique", static_cast<double>(ids_), 16, [&] {
      const char* const error = UniqueFindAsync(jobs, scratch, nullptr, nullptr);
      if (error != nullptr) return error;
      return UniqueWriteAsync<int64_t, int64_t>(jobs, 1, {handles_, fields_, counts}, scratch, nullptr);
    });
    for (void* memory : {static_cast<void*>(values), static_cast<void*>(counts), static_cast<void*>(scratch)}) {
      cudaFree(memory);
    }
  }

  // Two of a hundred keys are new. The last: the table grows.
  void FindOrInsert() {
    Phase("find_or_insert, 2 % new", 8 + 64, [&] {
      for (int64_t i = 0; i < ids_; ++i) host_fields_[i] = i % 100 < 2 ? 1 : 0;
      queue_.FromHost(host_fields_.data(), ids_, fields_);
      Send([&](int64_t i) {
        return i % 100 < 2 ? static_cast<uint64_t>(inserted_ + i) : static_cast<uint64_t>(i) * kStep & (rows_ - 1);
      });
      inserted_ += ids_;
      return Insert(fields_);
    });
  }

  double RowBytes() const { return 4.0 * static_cast<double>(dim_); }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;

  DeviceKeys Keys() const { return {keys_, nullptr, ids_}; }
  Status Insert(const uint32_t* fields = nullptr) {
    return table_->UpdateAsync({{keys_, fields, ids_}, nullptr, nullptr, {}},
                               [](const DeviceState&, const uint32_t*) { return Status(); });
  }
  // Keys of numbers.
  template <class Number>
  void Send(const Number& number, int64_t* to = nullptr) {
    for (int64_t i = 0; i < ids_; ++i) host_[i] = static_cast<int64_t>(Mix64(number(i)));
    queue_.FromHost(host_.data(), ids_, to == nullptr ? keys_ : to);
  }
  void DrawKeys() {
    Send([&](int64_t i) { return static_cast<uint64_t>(i) * kStep & (rows_ - 1); });
  }
  template <class Run>
  void Phase(const char* name, double bytes, const Run& run) {
    ReportKeys(name, static_cast<double>(ids_), bytes, [&] { return Checked(run()); });
  }

  const int64_t dim_, ids_, rows_;
  std::vector<int64_t> host_;
  std::vector<uint32_t> host_fields_;
  CudaQueue queue_{nullptr};
  std::unique_ptr<GpuTable> table_;
  int64_t inserted_ = 0;
  int64_t* const keys_ = OnCard<int64_t>(ids_);
  int64_t* const codes_ = OnCard<int64_t>(ids_);
  int64_t* const handles_ = OnCard<int64_t>(ids_);
  uint32_t* const fields_ = OnCard<uint32_t>(ids_);
  float* const out_ = OnCard<float>(ids_ * dim_);
  float* const scalars_ = OnCard<float>(6);
  StepInputs<float> inputs_ = {};
};

}  // namespace
}  // namespace gpu
}  // namespace tf_booster

int main(int argc, char** argv) {
  using namespace tf_booster::gpu;  // NOLINT: a program of one file.
  const int64_t dim = argc > 1 ? std::atoll(argv[1]) : 64, ids = argc > 2 ? std::atoll(argv[2]) : 1 << 20;
  const int64_t rows = argc > 3 ? std::atoll(argv[3]) : 8 * ids;
  ReportCopy(ids * 64);  // What the others are told beside.
  {
    Phases adagrad(dim, ids, rows, {0.1f});
    adagrad.Apply<table_step::Adagrad>("Adagrad", 5 * adagrad.RowBytes());
  }
  Phases phases(dim, ids, rows, {0.0f, 0.0f});
  phases.Lookups();
  phases.Apply<table_step::Adam>("Adam", 7 * phases.RowBytes());
  phases.FindOrInsert();
  phases.Unique();
  return 0;
}
