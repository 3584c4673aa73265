// TfBoosterTableServeRows, TableTakeRows, TableSendRows, TableReceiveHeads and TableReceiveRows: what is done with the
// rows of an exchange between ranks. What is to be done where, the ops ending in Plan have found out on the host.
//
// Device: has Copy, Sum, FindHandles and Gather, of a card or of the host.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_EXCHANGE_ROWS_OPS_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_EXCHANGE_ROWS_OPS_H_

#include <algorithm>
#include <vector>

#include "cc/core/exchange/card_plans.h"
#include "cc/core/exchange/row_terms_gpu.h"
#include "cc/core/gpu/multi_copy_gpu.h"
#include "cc/core/hash_table/hash_table.h"
#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/gradient_inputs.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

namespace exchange_rows {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

inline gpu::CopyJob CopyWords(const int32_t* from, int64_t words, int32_t* to) {
  gpu::CopyJob job;
  job.from = reinterpret_cast<const char*>(from);
  job.to = reinterpret_cast<char*>(to);
  job.bytes = job.room = words * static_cast<int64_t>(sizeof(int32_t));
  return job;
}

inline int64_t SumOf(const Tensor& splits) {
  int64_t sum = 0;
  for (int64_t i = 0; i < splits.NumElements(); ++i) sum += splits.flat<int32_t>()(i);
  return sum;
}

// Whether all rows of a message, which lie one stream's behind the other's, begin at multiples of 16 bytes.
inline bool AllAligned(const std::vector<int64_t>& dims) {
  return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim % 4 == 0; });
}

template <class Device>
class TableServeRowsOp final : public tensorflow::OpKernel {
 public:
  explicit TableServeRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dims", &dims_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("P", &num_probes_));
    OP_REQUIRES(ctx, static_cast<int>(dims_.size()) == num_probes_,
                InvalidArgument("TableServeRows: there are ", dims_.size(), " dims for ", num_probes_, " tables"));
  }

  void Compute(OpKernelContext* ctx) override {
    const int n = num_probes_;
    const Tensor& fingerprint = ctx->input(4 * n);
    const Tensor& splits = ctx->input(7 * n + 1);
    const Tensor& starts = ctx->input(7 * n + 2);
    const int64_t ranks = splits.NumElements();
    OP_REQUIRES(ctx,
                fingerprint.NumElements() == 1 && TensorShapeUtils::IsMatrix(starts.shape()) &&
                    starts.dim_size(0) == n && starts.dim_size(1) == ranks,
                InvalidArgument("TableServeRows: fingerprint, reply_splits and starts have the shapes ",
                                fingerprint.shape().DebugString(), ", ", splits.shape().DebugString(), " and ",
                                starts.shape().DebugString(), "; give them as TableMerge made them"));
    int32_t* reply = nullptr;
    OP_REQUIRES_OK(ctx, memory_.Allocate(ctx, 0, SumOf(splits), &reply));
    std::vector<gpu::CopyJob> heads;
    for (int64_t r = 0, at = 0; r < ranks; at += splits.flat<int32_t>()(r++)) {
      heads.push_back(CopyWords(fingerprint.flat<int32_t>().data(), 1, reply + at));
    }
    OP_REQUIRES_OK(ctx, Device::Copy(ctx, heads));
    for (int p = 0; p < n; ++p) {
      OP_REQUIRES_OK(ctx, ServeProbe(ctx, p, starts.flat<int64_t>().data() + p * ranks, ranks, reply));
    }
  }

 private:
  TfStatus ServeProbe(OpKernelContext* ctx, int p, const int64_t* starts, int64_t ranks, int32_t* reply) const {
    const int n = num_probes_;
    tensorflow::core::RefCountPtr<TableResource> resource;
    TF_RETURN_IF_ERROR(LookupResource(ctx, tensorflow::HandleFromInput(ctx, p), &resource));
    if (resource->dim() != dims_[p]) {
      return InvalidArgument("TableServeRows '", resource->name(), "': the table's dim is ", resource->dim(),
                             ", but the op's is ", dims_[p], "; give both the same embedding_dim");
    }
    const HashTable& table = resource->table();
    const Tensor& asked_keys = ctx->input(n + p);
    const Tensor& asked_fields = ctx->input(2 * n + p);
    const Tensor& codes = ctx->input(3 * n + p);
    const Tensor& received = ctx->input(6 * n + 1 + p);
    if (!TensorShapeUtils::IsMatrix(received.shape()) || received.dim_size(0) != ranks + 1 ||
        asked_fields.NumElements() != asked_keys.NumElements()) {
      return InvalidArgument("TableServeRows: asked_keys[", p, "], asked_fields[", p, "] and received[", p,
                             "] have the shapes ", asked_keys.shape().DebugString(), ", ",
                             asked_fields.shape().DebugString(), " and ", received.shape().DebugString(),
                             "; give them as TableMerge made them");
    }
    Tensor asked_handles;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_INT64, asked_keys.shape(), &asked_handles));
    const KeyBatch asked = Keys(asked_keys, asked_fields);
    RowHandle* const handles = asked_handles.flat<int64_t>().data();
    TF_RETURN_IF_ERROR(ToTensorFlow(Device::FindHandles(ctx, table, asked, handles), "TableServeRows"));
    const int64_t segments = received.dim_size(1);
    const int32_t* const counts = received.flat<int32_t>().data();
    const auto sum_of = [&](int64_t r) {
      int64_t sum = 0;
      for (int64_t s = 0; s < segments; ++s) sum += counts[r * segments + s];
      return sum;
    };
    std::vector<GatherPart> parts;
    int64_t at = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      parts.push_back({codes.flat<int64_t>().data() + at, sum_of(r), reinterpret_cast<float*>(reply + starts[r])});
      at += parts.back().size;
    }
    if (at != codes.NumElements()) {
      return InvalidArgument("TableServeRows: asked_codes[", p, "] has ", codes.NumElements(),
                             " entries, but received[", p, "] speaks of ", at,
                             " keys; give both as TableMerge made them");
    }
    TF_RETURN_IF_ERROR(ToTensorFlow(Device::Gather(ctx, table, asked, handles, parts), "TableServeRows"));
    if (sum_of(ranks) == asked_keys.NumElements()) {  // All that was asked for is counted.
      ctx->set_output(1 + p, asked_keys);
      ctx->set_output(1 + n + p, asked_fields);
      ctx->set_output(1 + 2 * n + p, asked_handles);
      return tensorflow::OkStatus();
    }
    const Tensor& keys = ctx->input(4 * n + 1 + p);
    const Tensor& fields = ctx->input(5 * n + 1 + p);
    Tensor* owned_handles = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(1 + 2 * n + p, keys.shape(), &owned_handles));
    ctx->set_output(1 + p, keys);
    ctx->set_output(1 + n + p, fields);
    return ToTensorFlow(Device::FindHandles(ctx, table, Keys(keys, fields), owned_handles->flat<int64_t>().data()),
                        "TableServeRows");
  }

  static KeyBatch Keys(const Tensor& keys, const Tensor& fields) {
    return {keys.flat<int64_t>().data(), reinterpret_cast<const uint32_t*>(fields.flat<int32_t>().data()),
            keys.NumElements()};
  }

  std::vector<int64_t> dims_;
  int num_probes_ = 0;
  MessageMemory memory_;
};

template <class Device>
class TableTakeRowsOp final : public tensorflow::OpKernel {
 public:
  explicit TableTakeRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
  }

  void Compute(OpKernelContext* ctx) override {
    const float* const message = reinterpret_cast<const float*>(ctx->input(0).flat<int32_t>().data());
    std::vector<gpu::TermsJob> jobs;
    for (int i = 1; i < ctx->num_inputs(); ++i) {
      const Tensor& places = ctx->input(i);
      tensorflow::TensorShape shape = places.shape();
      OP_REQUIRES_OK(ctx, shape.AddDimWithStatus(dim_));
      Tensor* values = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i - 1, shape, &values));
      gpu::TermsJob job;
      job.from = message;
      job.terms = places.flat<int32_t>().data();
      job.to = values->flat<float>().data();
      job.rows = places.NumElements();
      job.dim = dim_;
      job.aligned = dim_ % 4 == 0;  // The rows of a probe begin at a multiple of 64 bytes.
      jobs.push_back(job);
    }
    OP_REQUIRES_OK(ctx, Device::Sum(ctx, jobs));
  }

 private:
  int64_t dim_ = 0;
};

template <class Device>
class TableSendRowsOp final : public tensorflow::OpKernel {
 public:
  explicit TableSendRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dims", &dims_));
  }

  void Compute(OpKernelContext* ctx) override {
    const int m = static_cast<int>(dims_.size());
    OP_REQUIRES(ctx, ctx->num_inputs() == 4 * m + 5,
                InvalidArgument("TableSendRows: there are ", m, " dims; give one for each gradient"));
    const Tensor& heads = ctx->input(4 * m);
    const Tensor& head_begins = ctx->input(4 * m + 1);
    const Tensor& starts = ctx->input(4 * m + 2);
    const Tensor& splits = ctx->input(4 * m + 3);
    const Tensor& sizes = ctx->input(4 * m + 4);
    const int64_t ranks = splits.NumElements();
    OP_REQUIRES(ctx,
                head_begins.NumElements() == ranks + 1 && starts.NumElements() == ranks && sizes.NumElements() == m &&
                    head_begins.flat<int32_t>()(ranks) == heads.NumElements(),
                InvalidArgument("TableSendRows: heads, head_begins, starts, splits and sizes do not belong together; "
                                "give them as TableSendPlan made them"));
    int32_t* message = nullptr;
    OP_REQUIRES_OK(ctx, memory_.Allocate(ctx, 0, SumOf(splits), &message));
    std::vector<gpu::CopyJob> copies;
    for (int64_t r = 0; r < ranks; ++r) {
      const int32_t begin = head_begins.flat<int32_t>()(r), end = head_begins.flat<int32_t>()(r + 1);
      copies.push_back(
          CopyWords(heads.flat<int32_t>().data() + begin, end - begin, message + starts.flat<int32_t>()(r)));
    }
    OP_REQUIRES_OK(ctx, Device::Copy(ctx, copies));
    std::vector<gpu::TermsJob> jobs;
    for (int i = 0; i < m; ++i) {
      const Tensor& grads = ctx->input(i);
      const Tensor& begins = ctx->input(m + i);
      OP_REQUIRES(ctx,
                  TensorShapeUtils::IsMatrix(grads.shape()) && grads.dim_size(0) == sizes.flat<int64_t>()(i) &&
                      grads.dim_size(1) == dims_[i],
                  InvalidArgument("TableSendRows: grads[", i, "] has the shape ", grads.shape().DebugString(),
                                  ", but must be [", sizes.flat<int64_t>()(i), ", ", dims_[i], "]; reshape it"));
      gpu::TermsJob job;
      job.from = grads.flat<float>().data();
      job.step = job.dim = dims_[i];
      job.begins = begins.flat<int32_t>().data();
      job.terms = ctx->input(2 * m + i).flat<int32_t>().data();
      job.to = reinterpret_cast<float*>(message);
      job.to_at = ctx->input(3 * m + i).flat<int32_t>().data();
      job.rows = begins.NumElements() - 1;
      job.aligned = AllAligned(dims_);
      jobs.push_back(job);
    }
    OP_REQUIRES_OK(ctx, Device::Sum(ctx, jobs));
  }

 private:
  std::vector<int64_t> dims_;
  MessageMemory memory_;
};

// Inputs: message, splits, received of each probe.
template <class Device>
class TableReceiveHeadsOp final : public tensorflow::OpKernel {
 public:
  explicit TableReceiveHeadsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadGradientLayout(ctx, &layout_));
  }

  void Compute(OpKernelContext* ctx) override {
    GradientLayout layout = layout_;
    const Tensor& message = ctx->input(0);
    const Tensor& splits = ctx->input(1);
    OP_REQUIRES_OK(ctx, CheckMessage(ctx, message, splits, layout.ranks));
    std::vector<MergedProbe> probes;
    OP_REQUIRES_OK(ctx, ReadReceived(ctx, 2, &layout, &probes));
    HeadsToRead to_read;
    OP_REQUIRES_OK(
        ctx, ToTensorFlow(FindHeads(layout, probes, message.NumElements(), splits.flat<int32_t>().data(), &to_read),
                          "TableReceiveHeads"));
    Tensor* heads = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {to_read.total}, &heads));
    std::vector<gpu::CopyJob> copies;
    for (size_t r = 0; r < to_read.at.size(); ++r) {
      copies.push_back(CopyWords(message.flat<int32_t>().data() + to_read.begins[r], to_read.words[r],
                                 heads->flat<int32_t>().data() + to_read.at[r]));
      copies.back().room = AlignedWords(to_read.words[r]) * static_cast<int64_t>(sizeof(int32_t));
    }
    OP_REQUIRES_OK(ctx, Device::Copy(ctx, copies));
  }

 private:
  GradientLayout layout_;
};

// Inputs: message, begins of each gradient, terms of each, term_scales of each.
template <class Device>
class TableReceiveRowsOp final : public tensorflow::OpKernel {
 public:
  explicit TableReceiveRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dims", &dims_));
  }

  void Compute(OpKernelContext* ctx) override {
    const int m = static_cast<int>(dims_.size());
    OP_REQUIRES(ctx, ctx->num_inputs() == 1 + 3 * m,
                InvalidArgument("TableReceiveRows: there are ", m, " dims; give one for each gradient"));
    std::vector<gpu::TermsJob> jobs;
    for (int i = 0; i < m; ++i) {
      gpu::TermsJob job;
      job.from = reinterpret_cast<const float*>(ctx->input(0).flat<int32_t>().data());
      job.begins = ctx->input(1 + i).flat<int32_t>().data();
      job.terms = ctx->input(1 + m + i).flat<int32_t>().data();
      job.scales = ctx->input(1 + 2 * m + i).flat<float>().data();
      job.rows = ctx->input(1 + i).NumElements() - 1;
      job.dim = dims_[i];
      job.aligned = AllAligned(dims_);
      Tensor* values = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {job.rows, job.dim}, &values));
      job.to = values->flat<float>().data();
      jobs.push_back(job);
    }
    OP_REQUIRES_OK(ctx, Device::Sum(ctx, jobs));
  }

 private:
  std::vector<int64_t> dims_;
};

}  // namespace exchange_rows
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_EXCHANGE_ROWS_OPS_H_
