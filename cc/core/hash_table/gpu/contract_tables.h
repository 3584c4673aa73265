// Makes the card's tables for the contract suite: under nvcc on a card, otherwise on its stand-in, once with one thread
// and once with three that run blocks beside each other. (ThreadSanitizer sees those only: one thread has no races.)
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_CONTRACT_TABLES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_CONTRACT_TABLES_H_

#include <deque>

#include "cc/core/base/capped_allocator.h"
#include "cc/core/hash_table/contract/failures.h"
#include "cc/core/hash_table/contract/threads.h"
#include "cc/core/hash_table/gpu/gpu_table.h"

#if defined(__CUDACC__)
#include "cc/core/gpu/cuda_allocator.cuh"
#include "cc/core/hash_table/gpu/card_memory.h"
#endif

namespace tf_booster::contract {

// Where values of rows are: on the card; as far as they take so much of it, all tables of the program together, and
// else in host memory; or as far as they take so much of that as well, and else on a disk. They change places after
// every third step.
enum class Rooms { kCard, kHost, kDisk };
inline constexpr int64_t kFewRows = int64_t{16} << 10;

inline std::unique_ptr<HashTable> MakeGpuTable(const TableOptions& options, int threads, ScarceMemory* memory,
                                               Rooms rooms = Rooms::kCard) {
  GpuTableConfig config;
  const bool host_rows = rooms != Rooms::kCard;
  if (rooms == Rooms::kDisk) {
    static std::deque<ScarceMemory> few_in_host;
    config.host_memory = &few_in_host.emplace_back();
    few_in_host.back().limit = kFewRows;
    config.disk_folder = "/tmp";
  }
  config.memory = memory;
  config.swap_steps = 3;
  std::unique_ptr<GpuTable> table;
#if defined(__CUDACC__)
  (void)threads;
  config.allocator = gpu::CudaAllocator();
  if (memory != nullptr) {
    memory->source = config.allocator;
    config.allocator = memory;
  }
  static CappedAllocator few_rows(gpu::CudaAllocator(), kFewRows);
  if (host_rows) config.row_allocator = &few_rows;
  if (host_rows) config.host_allocator = PinnedMemory();
  EXPECT_OK(NewGpuTable(options, &table, config));
#else
  config.allocator = memory != nullptr ? static_cast<Allocator*>(memory) : HostAllocator();
  static CappedAllocator few_rows(HostAllocator(), kFewRows);
  if (host_rows) config.row_allocator = &few_rows;
  if (host_rows) config.host_allocator = HostAllocator();
  EXPECT_OK(NewHostStandInTable(options, &table, config, threads));
#endif
  return table;
}

inline TableMaker GpuTables(int threads) {
  return [=](const TableOptions& options) { return MakeGpuTable(options, threads, nullptr); };
}

inline ScarceTableMaker ScarceGpuTables(int threads) {
  return [=](const TableOptions& options, ScarceMemory* memory) { return MakeGpuTable(options, threads, memory); };
}

inline TableMaker GpuTablesWithHostRows(int threads) {
  return [=](const TableOptions& options) { return MakeGpuTable(options, threads, nullptr, Rooms::kHost); };
}

inline TableMaker GpuTablesOnDisk(int threads) {
  return [=](const TableOptions& options) { return MakeGpuTable(options, threads, nullptr, Rooms::kDisk); };
}

}  // namespace tf_booster::contract

#if defined(__CUDACC__)
#define GPU_CONTRACT(name, tables) \
  TEST(name##_Card) { name(tables(0)); }
#elif defined(__SANITIZE_THREAD__)
#define GPU_CONTRACT(name, tables) \
  TEST(name##_Threads3) { name(tables(3)); }
#else
#define GPU_CONTRACT(name, tables)          \
  TEST(name##_Thread1) { name(tables(1)); } \
  TEST(name##_Threads3) { name(tables(3)); }
#endif

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_CONTRACT_TABLES_H_
