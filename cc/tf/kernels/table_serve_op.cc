// TfBoosterTableServe: what the owner of keys does with the ids that all ranks sent: looks their rows up and sends them
// back.
#include <vector>

#include "cc/tf/kernels/table_owner_op.h"
#include "cc/tf/kernels/table_resource.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

class TableServeOp final : public TableOwnerOp {
 public:
  using TableOwnerOp::TableOwnerOp;

  void Compute(OpKernelContext* ctx) override {
    TfParallelFor pf(ctx);
    ReceivedIds received;
    OP_REQUIRES_OK(ctx, ReadIds(ctx, num_probes(), &received));
    OP_REQUIRES_OK(ctx, WriteScales(ctx, received, 2 + 6 * num_probes()));
    Tensor* reply_splits = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {layout_.ranks}, &reply_splits));
    int64_t words = 0;
    std::vector<std::vector<int64_t>> starts;
    OP_REQUIRES_OK(
        ctx, ToTensorFlow(received.LayOutRows(reply_splits->flat<int32_t>().data(), &words, &starts), "TableServe"));
    int32_t* reply = nullptr;
    OP_REQUIRES_OK(ctx, memory_.Allocate(ctx, 0, words, &reply));
    for (int64_t r = 0, at = 0; r < layout_.ranks; at += reply_splits->flat<int32_t>()(r++)) {
      reply[at] = layout_.Fingerprint();
    }
    for (int p = 0; p < num_probes(); ++p) OP_REQUIRES_OK(ctx, ServeProbe(ctx, received, p, starts[p], reply, pf));
  }

 private:
  TfStatus ServeProbe(OpKernelContext* ctx, const ReceivedIds& received, int p, const std::vector<int64_t>& starts,
                      int32_t* reply, ParallelFor& pf) {
    tensorflow::core::RefCountPtr<TableResource> resource;
    TF_RETURN_IF_ERROR(LookupResource(ctx, HandleFromInput(ctx, p), &resource));
    const HashTable& table = resource->table();
    const int64_t dim = layout_.probes[p].dim, first = FirstCodeOf(groups_[p]);
    if (resource->dim() != dim) {
      return InvalidArgument("TableServe '", resource->name(), "': the table's dim is ", resource->dim(),
                             ", but the op's is ", dim, "; give both the same embedding_dim");
    }
    Tensor* codes_out = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(2 + 4 * num_probes() + p, {received.size(p)}, &codes_out));
    int64_t* codes = codes_out->flat<int64_t>().data();
    ReceivedIds::Merged merged;
    TF_RETURN_IF_ERROR(ToTensorFlow(received.Merge(p, first, codes, &merged, pf), "TableServe"));
    const auto batch = [&] {
      return KeyBatch{merged.keys.data(), merged.fields.data(), static_cast<int64_t>(merged.keys.size())};
    };
    std::vector<RowHandle> handles(merged.keys.size());
    TF_RETURN_IF_ERROR(ToTensorFlow(table.FindHandles(batch(), handles.data(), pf), "TableServe"));
    std::vector<GatherPart> parts;
    int64_t at = 0;
    for (int32_t r = 0; r < layout_.ranks; ++r) {
      parts.push_back({codes + at, received.size(p, r), reinterpret_cast<float*>(reply + starts[r])});
      at += parts.back().size;
    }
    TF_RETURN_IF_ERROR(ToTensorFlow(table.Gather(batch(), handles.data(), parts, pf), "TableServe"));
    if (HasUncounted(merged)) {
      DropUncounted(first, received.size(p), codes, &merged);
      handles.resize(merged.keys.size());
      TF_RETURN_IF_ERROR(ToTensorFlow(table.FindHandles(batch(), handles.data(), pf), "TableServe"));
    }
    TF_RETURN_IF_ERROR(Write(ctx, 2 + p, merged.keys));
    TF_RETURN_IF_ERROR(Write(ctx, 2 + num_probes() + p, merged.fields));
    TF_RETURN_IF_ERROR(Write(ctx, 2 + 2 * num_probes() + p, merged.counts));
    TF_RETURN_IF_ERROR(Write(ctx, 2 + 3 * num_probes() + p, handles));
    return WriteReceived(ctx, received, p, merged, 2 + 5 * num_probes() + p);
  }

  MessageMemory memory_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableServe").Device(tensorflow::DEVICE_CPU), TableServeOp);

}  // namespace tf_booster
