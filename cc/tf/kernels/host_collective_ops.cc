// TfBoosterHostAllToAll, TfBoosterHostAllGather and TfBoosterHostAllReduce: collectives of the ranks of one host.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/host_ranks/host_collectives.h"
#include "cc/tf/kernels/host_ranks.h"
#include "cc/tf/kernels/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::FailedPrecondition;
using tensorflow::errors::InvalidArgument;

char* Data(const Tensor& tensor) { return const_cast<char*>(tensor.tensor_data().data()); }

class HostCollectiveOp : public AsyncOpKernel {
 public:
  explicit HostCollectiveOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("collective", &collective_));
    group_ = TheHostGroup();
    OP_REQUIRES(ctx, group_ != nullptr,
                FailedPrecondition(type_string(), " '", name(),
                                   "': the ranks of this host have not found each other; start the program with "
                                   "`python -m tf_booster.run` and call tf.enable_gpu_booster() first"));
    OP_REQUIRES_OK(ctx, Convert(group_->Channel(collective_, &channel_)));
  }

 protected:
  tensorflow::Status Convert(const Status& status) const { return ToTensorFlow(status, name()); }

  // Ends the round and the op.
  void End(OpKernelContext* ctx, const Status& status, const DoneCallback& done) {
    channel_->Finish();
    if (!status.ok()) ctx->SetStatus(Convert(status));
    done();
  }

  std::string collective_;
  HostGroup* group_ = nullptr;
  HostChannel* channel_ = nullptr;
};

class HostAllToAllOp : public HostCollectiveOp {
 public:
  using HostCollectiveOp::HostCollectiveOp;

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    const Tensor& tensor = ctx->input(0);
    const int32_t size = group_->size();
    OP_REQUIRES_ASYNC(ctx, tensor.dims() >= 1, InvalidArgument(name(), ": tensor is a scalar; wanted rows"), done);
    OP_REQUIRES_ASYNC(ctx, ctx->input(1).shape() == TensorShape({size}),
                      InvalidArgument(name(), ": splits has shape ", ctx->input(1).shape().DebugString(),
                                      "; wanted one for each of ", size, " ranks"),
                      done);
    const auto splits = ctx->input(1).vec<int32_t>();
    int64_t row = tensorflow::DataTypeSize(tensor.dtype());
    for (int d = 1; d < tensor.dims(); ++d) row *= tensor.dim_size(d);
    std::vector<Bytes> chunks;
    const char* from = Data(tensor);
    int64_t rows = 0;
    for (int32_t rank = 0; rank < size; ++rank) {
      rows += splits(rank);
      OP_REQUIRES_ASYNC(ctx, splits(rank) >= 0 && rows <= tensor.dim_size(0),
                        InvalidArgument(name(), ": splits[", rank, "] is ", splits(rank), ", and tensor has ",
                                        tensor.dim_size(0), " rows"),
                        done);
      chunks.push_back({from, splits(rank) * row});
      from += splits(rank) * row;
    }
    const int64_t tag = row * 256 + tensor.dtype();
    OP_REQUIRES_OK_ASYNC(ctx, Convert(SendChunks(*group_, channel_, tag, chunks)), done);
    const Bytes own = chunks[group_->rank()];
    group_->WhenReceived(channel_, [this, ctx, tag, row, own, done](const Status& arrived) {
      End(ctx, arrived.ok() ? Take(ctx, tag, row, own) : arrived, done);
    });
  }

 private:
  Status Take(OpKernelContext* ctx, int64_t tag, int64_t row, Bytes own) {
    std::vector<Bytes> chunks(group_->size(), own);
    int64_t rows = 0;
    for (int32_t rank = 0; rank < group_->size(); ++rank) {
      if (rank != group_->rank()) TFB_RETURN_IF_ERROR(ReceiveChunk(*group_, channel_, rank, tag, &chunks[rank]));
      rows += row == 0 ? 0 : chunks[rank].size / row;
    }
    TensorShape shape = ctx->input(0).shape();
    shape.set_dim(0, rows);
    Tensor *received = nullptr, *splits = nullptr;
    for (const auto& allocated :
         {ctx->allocate_output(0, shape, &received), ctx->allocate_output(1, TensorShape({group_->size()}), &splits)}) {
      if (!allocated.ok()) return Status(StatusCode::kResourceExhausted, MessageOf(allocated));
    }
    char* to = Data(*received);
    for (int32_t rank = 0; rank < group_->size(); ++rank) {
      if (chunks[rank].size > 0) std::memcpy(to, chunks[rank].data, chunks[rank].size);
      to += chunks[rank].size;
      splits->vec<int32_t>()(rank) = row == 0 ? 0 : static_cast<int32_t>(chunks[rank].size / row);
    }
    return Status();
  }
};

class HostAllGatherOp : public HostCollectiveOp {
 public:
  using HostCollectiveOp::HostCollectiveOp;

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    const Tensor& bytes = ctx->input(0);
    OP_REQUIRES_OK_ASYNC(ctx, Convert(SendToAll(channel_, kTag, {Data(bytes), bytes.NumElements()})), done);
    group_->WhenReceived(
        channel_, [this, ctx, done](const Status& arrived) { End(ctx, arrived.ok() ? Take(ctx) : arrived, done); });
  }

 private:
  static constexpr int64_t kTag = -1;

  Status Take(OpKernelContext* ctx) {
    std::vector<Bytes> chunks(group_->size());
    int64_t size = 0;
    for (int32_t rank = 0; rank < group_->size(); ++rank) {
      TFB_RETURN_IF_ERROR(ReceiveChunk(*group_, channel_, rank, kTag, &chunks[rank]));
      size += chunks[rank].size;
    }
    Tensor* gathered = nullptr;
    const auto allocated = ctx->allocate_output(0, TensorShape({size}), &gathered);
    if (!allocated.ok()) return Status(StatusCode::kResourceExhausted, MessageOf(allocated));
    char* to = Data(*gathered);
    for (const Bytes& chunk : chunks) {
      if (chunk.size > 0) std::memcpy(to, chunk.data, chunk.size);
      to += chunk.size;
    }
    return Status();
  }
};

template <typename T>
class HostAllReduceOp : public HostCollectiveOp {
 public:
  using HostCollectiveOp::HostCollectiveOp;

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    const Tensor& in = ctx->input(0);
    Tensor* out = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->forward_input_or_allocate_output({0}, 0, in.shape(), &out), done);
    AllReduceCall call;
    call.in = Data(in);
    call.out = Data(*out);
    call.count = in.NumElements();
    call.item = sizeof(T);
    call.tag = -2 - in.dtype();
    call.add_up = AddUpOf<T>;
    AllReduce(group_, collective_, call, [this, ctx, done](const Status& status) {
      if (!status.ok()) ctx->SetStatus(Convert(status));
      done();
    });
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterHostAllToAll").Device(tensorflow::DEVICE_CPU), HostAllToAllOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterHostAllGather").Device(tensorflow::DEVICE_CPU), HostAllGatherOp);
#define TFB_REGISTER(T)                                                                                         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterHostAllReduce").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          HostAllReduceOp<T>)
TFB_REGISTER(float);
TFB_REGISTER(double);
TFB_REGISTER(int32_t);
TFB_REGISTER(int64_t);
#undef TFB_REGISTER

}  // namespace
}  // namespace tf_booster
