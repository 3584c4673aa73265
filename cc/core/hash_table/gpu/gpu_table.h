// The hash table in a card's memory: the interface of the host's table for what lives on the host (checkpoints, tools,
// tests), and methods that take device memory and do not wait for what happens in training.
// docs/design/gpu_hash_table.md explains it.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/base/allocator.h"
#include "cc/core/hash_table/gpu/device_state.h"
#include "cc/core/hash_table/hash_table.h"

namespace tf_booster {

class MemoryProbe;

struct GpuTableConfig {
  Allocator* allocator = nullptr;  // Of device memory; it need not be zeroed. Must outlive the table, as those below.
  // Of the rows' values on the card; null: `allocator`. Where it has no more, those of further rows come from
  // host_allocator: memory of the host that kernels can address. Null: there are no further rows then.
  Allocator* row_allocator = nullptr;
  Allocator* host_allocator = nullptr;
  MemoryProbe* host_memory = nullptr;  // Is asked before rows go to the host; null: host_allocator alone decides.
  // A folder where rows go for which the host has no memory either; empty: none. Needs a host_allocator.
  std::string disk_folder;
  int64_t swap_steps = 64;  // So often rows in host memory, or on the disk, that are used swap places with nearer ones
                            // that are idle.
  MemoryProbe* memory = nullptr;  // Is asked before memory is taken; null: the allocator alone decides.
  void* stream = nullptr;         // A cudaStream_t: all that the table does is in its order.
};

// A training step's distinct keys in device memory. Their fields need no check: a key of no field of the table is
// none.
struct DeviceUpdate {
  gpu::DeviceKeys keys;
  const int64_t* counts = nullptr;     // Null: 1 each. Their sum is at most keys.size, as that of a probe's is.
  const RowHandle* handles = nullptr;  // Null: probe.
  std::vector<uint32_t> fields;        // Those that step; empty: all.
};

// Called with the view of the table and rows[i], the row of key i or 0, in device memory: starts the optimizer's step.
using DeviceRowsFn = FunctionRef<Status(const gpu::DeviceState& state, const uint32_t* rows)>;

// Arrays are in device memory and results are there when the stream comes to it. An error of CUDA is Internal, with the
// table's name.
class GpuTable : public HashTable {
 public:
  virtual Status FindAsync(const gpu::DeviceKeys& keys, float* out, uint8_t* found) const = 0;
  virtual Status FindHandlesAsync(const gpu::DeviceKeys& keys, RowHandle* handles) const = 0;
  // A code that names no key gives zeros.
  virtual Status GatherAsync(const gpu::DeviceKeys& keys, const RowHandle* handles,
                             const std::vector<GatherPart>& parts) const = 0;
  // As HashTable::Update. It waits for the card where its bounds say that memory may not suffice, or that a field comes
  // to its max_rows.
  virtual Status UpdateAsync(const DeviceUpdate& batch, DeviceRowsFn update) = 0;
};

// On the host, with the same kernels' bodies: what tests use. `threads`: those that run blocks beside each other.
Status NewHostStandInTable(TableOptions options, std::unique_ptr<GpuTable>* table, const GpuTableConfig& config,
                           int threads);

// On a card. In a library that was built without nvcc there is no such function.
Status NewGpuTable(TableOptions options, std::unique_ptr<GpuTable>* table, const GpuTableConfig& config);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_H_
