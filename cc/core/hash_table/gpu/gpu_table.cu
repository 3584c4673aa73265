#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/hash_table/gpu/gpu_table_contents.h"
#include "cc/core/hash_table/gpu/gpu_table_read.h"
#include "cc/core/hash_table/gpu/gpu_table_update.h"
#include "cc/core/hash_table/gpu/gpu_table_write.h"

namespace tf_booster {

Status NewGpuTable(TableOptions options, std::unique_ptr<GpuTable>* table, const GpuTableConfig& config) {
  return gpu::NewTableOn(std::move(options), table, config, gpu::CudaQueue(config.stream));
}

}  // namespace tf_booster
