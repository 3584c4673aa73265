// The same on the host, by the card's code: for sessions without a card, and tests.
#include "cc/tf/kernels/table_exchange_rows_ops.h"

#include "cc/core/exchange/row_terms_body.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/multi_copy_body.h"
#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace exchange_rows {
namespace {

struct Host {
  static TfStatus Copy(OpKernelContext*, const std::vector<gpu::CopyJob>& jobs) {
    gpu::HostQueue queue;
    gpu::MultiCopy(queue, jobs);
    return tensorflow::OkStatus();
  }
  static TfStatus Sum(OpKernelContext*, const std::vector<gpu::TermsJob>& jobs) {
    gpu::HostQueue queue;
    gpu::SumTermsOn(queue, jobs);
    return tensorflow::OkStatus();
  }
  static Status FindHandles(OpKernelContext* ctx, const HashTable& table, const KeyBatch& keys, RowHandle* handles) {
    TfParallelFor pf(ctx);
    return table.FindHandles(keys, handles, pf);
  }
  static Status Gather(OpKernelContext* ctx, const HashTable& table, const KeyBatch& keys, const RowHandle* handles,
                       const std::vector<GatherPart>& parts) {
    TfParallelFor pf(ctx);
    return table.Gather(keys, handles, parts, pf);
  }
};

#define REGISTER(op) REGISTER_KERNEL_BUILDER(Name("TfBooster" #op).Device(tensorflow::DEVICE_CPU), op##Op<Host>)
REGISTER(TableServeRows);
REGISTER(TableTakeRows);
REGISTER(TableSendRows);
REGISTER(TableReceiveHeads);
REGISTER(TableReceiveRows);
#undef REGISTER

}  // namespace
}  // namespace exchange_rows
}  // namespace tf_booster
