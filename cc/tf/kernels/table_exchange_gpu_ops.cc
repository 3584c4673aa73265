// What a card does of an exchange between ranks.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/table_exchange_rows_ops.h"

namespace tf_booster {
namespace exchange_rows {
namespace {

// A handle of this device is of a table that TableHandle made there.
struct Card {
  static TfStatus Copy(OpKernelContext* ctx, const std::vector<gpu::CopyJob>& jobs) {
    return GpuStatus(ctx->op_kernel(), gpu::MultiCopyAsync(jobs, GpuStream(ctx)));
  }
  static TfStatus Sum(OpKernelContext* ctx, const std::vector<gpu::TermsJob>& jobs) {
    return GpuStatus(ctx->op_kernel(), gpu::SumTermsAsync(jobs, GpuStream(ctx)));
  }
  static Status FindHandles(OpKernelContext*, const HashTable& table, const KeyBatch& keys, RowHandle* handles) {
    return static_cast<const GpuTable&>(table).FindHandlesAsync({keys.keys, keys.fields, keys.size}, handles);
  }
  static Status Gather(OpKernelContext*, const HashTable& table, const KeyBatch& keys, const RowHandle* handles,
                       const std::vector<GatherPart>& parts) {
    return static_cast<const GpuTable&>(table).GatherAsync({keys.keys, keys.fields, keys.size}, handles, parts);
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableServeRows")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("tables")
                            .HostMemory("received")
                            .HostMemory("reply_splits")
                            .HostMemory("starts"),
                        TableServeRowsOp<Card>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableTakeRows").Device(tensorflow::DEVICE_GPU), TableTakeRowsOp<Card>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSendRows")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("head_begins")
                            .HostMemory("starts")
                            .HostMemory("splits")
                            .HostMemory("sizes"),
                        TableSendRowsOp<Card>);
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterTableReceiveHeads").Device(tensorflow::DEVICE_GPU).HostMemory("splits").HostMemory("received"),
    TableReceiveHeadsOp<Card>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableReceiveRows").Device(tensorflow::DEVICE_GPU), TableReceiveRowsOp<Card>);

}  // namespace
}  // namespace exchange_rows
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
