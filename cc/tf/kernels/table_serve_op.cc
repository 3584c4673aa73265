// TfBoosterTableServe: what the owner of keys does with the ids that all ranks sent: looks their rows up and sends them
// back.
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/exchange/id_exchange.h"
#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/table_resource.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

class TableServeOp : public tensorflow::OpKernel {
 public:
  explicit TableServeOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int64_t> first_segments;
    std::string reduction;
    OP_REQUIRES_OK(ctx, ReadExchangeLayout(ctx, &layout_, &groups_, &first_segments));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reduction", &reduction));
    average_ = reduction == "average";
  }

  void Compute(OpKernelContext* ctx) override {
    TfParallelFor pf(ctx);
    const int num_probes = static_cast<int>(groups_.size());
    const Tensor& message = ctx->input(num_probes);
    const Tensor& splits = ctx->input(num_probes + 1);
    OP_REQUIRES_OK(ctx, CheckMessage(ctx, message, splits, layout_.ranks));
    ReceivedIds received;
    OP_REQUIRES_OK(ctx, ToTensorFlow(received.Parse(layout_, message.flat<int32_t>().data(), message.NumElements(),
                                                    splits.flat<int32_t>().data()),
                                     "TableServe"));
    OP_REQUIRES_OK(ctx, WriteScales(ctx, received));
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
    for (int p = 0; p < num_probes; ++p) OP_REQUIRES_OK(ctx, ServeProbe(ctx, received, p, starts[p], reply, pf));
  }

 private:
  // What one process would have divided by, at each rank.
  TfStatus WriteScales(OpKernelContext* ctx, const ReceivedIds& received) const {
    Tensor* scales = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(2 + 6 * static_cast<int>(groups_.size()), {layout_.ranks}, &scales));
    double rows = 0;
    for (int32_t r = 0; r < layout_.ranks; ++r) rows += static_cast<double>(received.rows(r));
    for (int32_t r = 0; r < layout_.ranks; ++r) {
      const double own = static_cast<double>(received.rows(r));
      scales->flat<float>()(r) = own > 0 ? (average_ ? static_cast<float>(own / rows) : 1.0f) : 0.0f;
    }
    return tensorflow::OkStatus();
  }

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
    const int num_probes = static_cast<int>(groups_.size());
    Tensor* codes_out = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(2 + 4 * num_probes + p, {received.size(p)}, &codes_out));
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
    if (std::find(merged.counts.begin(), merged.counts.end(), 0) != merged.counts.end()) {
      DropUncounted(first, received.size(p), codes, &merged);
      handles.resize(merged.keys.size());
      TF_RETURN_IF_ERROR(ToTensorFlow(table.FindHandles(batch(), handles.data(), pf), "TableServe"));
    }
    TF_RETURN_IF_ERROR(Write(ctx, 2 + p, merged.keys));
    TF_RETURN_IF_ERROR(Write(ctx, 2 + num_probes + p, merged.fields));
    TF_RETURN_IF_ERROR(Write(ctx, 2 + 2 * num_probes + p, merged.counts));
    TF_RETURN_IF_ERROR(Write(ctx, 2 + 3 * num_probes + p, handles));
    return WriteReceived(ctx, received, p, merged);
  }

  TfStatus WriteReceived(OpKernelContext* ctx, const ReceivedIds& received, int p,
                         const ReceivedIds::Merged& merged) const {
    const int64_t segments = static_cast<int64_t>(layout_.probes[p].fields.size());
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(
        ctx->allocate_output(2 + 5 * static_cast<int>(groups_.size()) + p, {layout_.ranks + 1, segments}, &tensor));
    int32_t* out = tensor->flat<int32_t>().data();
    for (int32_t r = 0; r < layout_.ranks; ++r) {
      for (int64_t s = 0; s < segments; ++s) *out++ = received.size(p, r, s);
    }
    std::copy(merged.sizes.begin(), merged.sizes.end(), out);
    return tensorflow::OkStatus();
  }

  template <class T>
  static TfStatus Write(OpKernelContext* ctx, int output, const std::vector<T>& values) {
    using Element = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {static_cast<int64_t>(values.size())}, &tensor));
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(tensor->flat<Element>().data()));
    return tensorflow::OkStatus();
  }

  ExchangeLayout layout_;
  std::vector<int64_t> groups_;
  bool average_ = true;
  MessageMemory memory_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableServe").Device(tensorflow::DEVICE_CPU), TableServeOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableServe")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("tables")
                            .HostMemory("message")
                            .HostMemory("splits")
                            .HostMemory("reply")
                            .HostMemory("reply_splits")
                            .HostMemory("keys")
                            .HostMemory("key_fields")
                            .HostMemory("counts")
                            .HostMemory("handles")
                            .HostMemory("owner_codes")
                            .HostMemory("received")
                            .HostMemory("scales"),
                        TableServeOp);

}  // namespace tf_booster
