// Steps on a table that has memory for a part of its rows, beside one that has memory for all. What the kernel keeps of
// the disk in memory counts, so run it where there is no more memory than the table is to have: in a cgroup.
//
//   disk_rows_bench FOLDER [rows = 20000000] [in_memory = 0.25] [steps = 400] [swap_steps = 64] [table = cpu]
//
// in_memory: the part of rows with memory of their own; 1 is a table without a disk. table: stand-in is a card's, whose
// kernels run on two threads of the host: what it reads and writes is what a card's would.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "cc/core/base/capped_allocator.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/hash_table/cpu_table.h"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/row_layout.h"

namespace tf_booster {
namespace {

constexpr int64_t kDim = 16, kSlots = 2, kBatch = 16384;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Ranks by Zipf's law with exponent 1.05, by the inverse of its integral.
class Zipf {
 public:
  explicit Zipf(int64_t n) : whole_(1 - std::pow(static_cast<double>(n), -0.05)) {}
  int64_t operator()(std::mt19937_64& random) const {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    return static_cast<int64_t>(std::pow(1 - u * whole_, -20.0)) - 1;
  }

 private:
  const double whole_;
};

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

class RoomFor final : public MemoryProbe {
 public:
  explicit RoomFor(int64_t bytes) : left_(bytes) {}
  bool Grant(int64_t bytes, int64_t* left) override {
    *left = left_;
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  int64_t left_;
};

std::unique_ptr<HashTable> NewTable(const TableOptions& options, const std::string& folder, RoomFor* room,
                                    int swap_steps, bool stand_in) {
  std::unique_ptr<HashTable> table;
  if (!stand_in) {
    CpuTableConfig config;
    config.disk_folder = folder;
    config.row_memory = room;
    config.swap_steps = swap_steps;
    Check(NewCpuTable(options, &table, config));
    return table;
  }
  static CappedAllocator no_rows(HostAllocator(), 0);
  GpuTableConfig config;
  config.allocator = config.host_allocator = HostAllocator();
  config.row_allocator = &no_rows;
  if (!folder.empty()) config.host_memory = room;
  config.disk_folder = folder;
  config.swap_steps = swap_steps;
  std::unique_ptr<GpuTable> made;
  Check(NewHostStandInTable(options, &made, config, 2));
  return made;
}

void Run(const std::string& folder, int64_t rows, double in_memory, int64_t steps, int swap_steps, bool stand_in) {
  TableOptions options;
  options.name = "rows";
  options.dim = kDim;
  options.slot_initial_values.assign(kSlots, 0.0f);
  options.fields = {{"rows", 1, {InitializerKind::kUniform, -0.05f, 0.05f}}};
  RoomFor room(static_cast<int64_t>(in_memory * static_cast<double>(rows)) *
               (RowLayout(kDim, kSlots).stride_bytes + (stand_in ? 0 : 8)));
  const std::unique_ptr<HashTable> table = NewTable(options, in_memory < 1 ? folder : "", &room, swap_steps, stand_in);
  ThreadFor pf(2);
  std::vector<int64_t> keys(kBatch);
  std::vector<float> out(kBatch * kDim);
  double start = Now();
  // In an order that says nothing of how often a key comes later: the worst for what is in memory first.
  for (int64_t begin = 0; begin < rows; begin += kBatch) {
    const int64_t n = std::min(kBatch, rows - begin);
    for (int64_t i = 0; i < n; ++i) keys[i] = begin + i;
    Check(table->FindOrInsert({keys.data(), nullptr, n}, out.data(), pf));
  }
  const TableStats stats = table->Stats();
  std::printf("%.1f GB, %.1f of them on the disk; inserted in %.0f s\n", static_cast<double>(stats.bytes) / 1e9,
              static_cast<double>(stats.disk_bytes) / 1e9, Now() - start);
  const Zipf zipf(rows);
  std::mt19937_64 random(1);
  std::vector<RowHandle> handles(kBatch);
  std::vector<int64_t> codes(kBatch);
  for (int64_t i = 0; i < kBatch; ++i) codes[i] = i + 1;
  const int64_t part = std::max<int64_t>(1, steps / 8);
  double lookup = 0, update = 0;
  int64_t distinct = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    keys.clear();
    std::unordered_set<int64_t> seen;
    for (int64_t i = 0; i < kBatch; ++i) {
      const int64_t key =
          static_cast<int64_t>(Mix64(static_cast<uint64_t>(zipf(random))) % static_cast<uint64_t>(rows));
      if (seen.insert(key).second) keys.push_back(key);
    }
    const int64_t n = static_cast<int64_t>(keys.size());
    distinct += n;
    const KeyBatch batch = {keys.data(), nullptr, n};
    double before = Now();
    Check(table->FindHandles(batch, handles.data(), pf));
    Check(table->Gather(batch, handles.data(), {{codes.data(), n, out.data()}}, pf));
    lookup += Now() - before;
    before = Now();
    const auto add = [](const RowVisit& visit) {
      for (int64_t i = 0; i < visit.size; ++i) {
        for (int64_t c = 0; c < (1 + kSlots) * kDim; ++c) visit.rows[i][c] += 0.001f;
      }
    };
    Check(table->Update({batch, nullptr, handles.data()}, add, pf));
    update += Now() - before;
    if (step % part != 0) continue;
    std::printf("steps to %lld: lookup %.2f ms, update %.2f ms, of %lld distinct keys of %lld\n",
                static_cast<long long>(step), 1e3 * lookup / static_cast<double>(part),
                1e3 * update / static_cast<double>(part), static_cast<long long>(distinct / part),
                static_cast<long long>(kBatch));
    std::fflush(stdout);
    lookup = update = 0;
    distinct = 0;
  }
}

}  // namespace
}  // namespace tf_booster

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) { return argc > i ? argv[i] : otherwise; };
  if (argc < 2) {
    std::fprintf(stderr, "disk_rows_bench FOLDER [rows] [in_memory] [steps] [swap_steps] [table]\n");
    return 1;
  }
  tf_booster::Run(argv[1], std::atoll(argument(2, "20000000")), std::atof(argument(3, "0.25")),
                  std::atoll(argument(4, "400")), std::atoi(argument(5, "64")),
                  std::string(argument(6, "cpu")) == "stand-in");
}
