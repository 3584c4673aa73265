// TfBoosterTableMerge: the distinct ids that all ranks sent, for tables on the card.
#include <vector>

#include "cc/tf/kernels/table_owner_op.h"
#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class TableMergeOp final : public TableOwnerOp {
 public:
  using TableOwnerOp::TableOwnerOp;

  void Compute(OpKernelContext* ctx) override {
    TfParallelFor pf(ctx);
    const int n = num_probes();
    ReceivedIds received;
    OP_REQUIRES_OK(ctx, ReadIds(ctx, 0, &received));
    OP_REQUIRES_OK(ctx, WriteScales(ctx, received, 8 * n));
    Tensor *splits = nullptr, *starts_out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(8 * n + 1, {layout_.ranks}, &splits));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(8 * n + 2, {n, layout_.ranks}, &starts_out));
    OP_REQUIRES_OK(ctx, Write<int32_t>(ctx, 8 * n + 3, {layout_.Fingerprint()}));
    int64_t words = 0;
    std::vector<std::vector<int64_t>> starts;
    OP_REQUIRES_OK(ctx,
                   ToTensorFlow(received.LayOutRows(splits->flat<int32_t>().data(), &words, &starts), "TableMerge"));
    for (int p = 0; p < n; ++p) {
      std::copy(starts[p].begin(), starts[p].end(), starts_out->flat<int64_t>().data() + p * layout_.ranks);
      OP_REQUIRES_OK(ctx, MergeProbe(ctx, received, p, pf));
    }
  }

 private:
  TfStatus MergeProbe(OpKernelContext* ctx, const ReceivedIds& received, int p, ParallelFor& pf) const {
    const int n = num_probes();
    const int64_t first = FirstCodeOf(groups_[p]);
    Tensor* codes = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(2 * n + p, {received.size(p)}, &codes));
    ReceivedIds::Merged merged;
    TF_RETURN_IF_ERROR(
        ToTensorFlow(received.Merge(p, first, codes->flat<int64_t>().data(), &merged, pf), "TableMerge"));
    TF_RETURN_IF_ERROR(Write(ctx, p, merged.keys));
    TF_RETURN_IF_ERROR(Write(ctx, n + p, merged.fields));
    if (HasUncounted(merged)) {
      Tensor* owner_codes = nullptr;
      TF_RETURN_IF_ERROR(ctx->allocate_output(6 * n + p, {received.size(p)}, &owner_codes));
      int64_t* const left = owner_codes->flat<int64_t>().data();
      std::copy_n(codes->flat<int64_t>().data(), received.size(p), left);
      DropUncounted(first, received.size(p), left, &merged);
      TF_RETURN_IF_ERROR(Write(ctx, 3 * n + p, merged.keys));
      TF_RETURN_IF_ERROR(Write(ctx, 4 * n + p, merged.fields));
    } else {
      ctx->set_output(6 * n + p, *codes);
      TF_RETURN_IF_ERROR(Write<int64_t>(ctx, 3 * n + p, {}));
      TF_RETURN_IF_ERROR(Write<uint32_t>(ctx, 4 * n + p, {}));
    }
    TF_RETURN_IF_ERROR(Write(ctx, 5 * n + p, merged.counts));
    return WriteReceived(ctx, received, p, merged, 7 * n + p);
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableMerge").Device(tensorflow::DEVICE_CPU), TableMergeOp);

}  // namespace tf_booster
