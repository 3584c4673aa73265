#include "cc/core/gpu/host_queue.h"
#include "cc/core/hash_table/gpu/gpu_table_contents.h"
#include "cc/core/hash_table/gpu/gpu_table_read.h"
#include "cc/core/hash_table/gpu/gpu_table_update.h"
#include "cc/core/hash_table/gpu/gpu_table_write.h"

namespace tf_booster {

Status NewHostStandInTable(TableOptions options, std::unique_ptr<GpuTable>* table, const GpuTableConfig& config,
                           int threads) {
  return gpu::NewTableOn(std::move(options), table, config, gpu::HostQueue(threads));
}

}  // namespace tf_booster
