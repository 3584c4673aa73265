// Lookups whose rows are in another process: see cc/tf/ops/server_lookup_ops.cc. On the CPU: gRPC reads and writes host
// memory.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cc/core/pooling/lookup_message.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

namespace {

TfStatus Invalid(const OpKernel& op, const std::string& what) {
  return tensorflow::errors::InvalidArgument(op.type_string(), " '", op.name(), "': ", what);
}

TfStatus ReadParts(OpKernelContext* ctx, const char* name, int64_t n, std::vector<LookupPart>* parts) {
  const Tensor* message;
  TF_RETURN_IF_ERROR(ctx->input(name, &message));
  const char* data = reinterpret_cast<const char*>(message->flat<uint8_t>().data());
  if (!ReadMessage(data, message->NumElements(), parts) || (n >= 0 && static_cast<int64_t>(parts->size()) != n)) {
    return Invalid(ctx->op_kernel(), std::string(name) + " is not of a LookupRequest of these lookups");
  }
  for (const LookupPart& part : *parts) {
    // What was not pooled there is checked here.
    if (part.has_segments() && !CheckSegments(part.segments, part.places)) {
      return Invalid(ctx->op_kernel(), "idx and row_splits are not those of these embeddings");
    }
  }
  return tensorflow::OkStatus();
}

TfStatus PartsAt(const OpKernel& op, const std::vector<LookupPart>& all, const std::vector<int64_t>& places,
                 std::vector<LookupPart>* parts) {
  for (const int64_t place : places) {
    if (place < 0 || place >= static_cast<int64_t>(all.size())) return Invalid(op, "places has no such lookup");
    parts->push_back(all[place]);
  }
  return tensorflow::OkStatus();
}

int64_t MovedElements(const std::vector<LookupPart>& parts) {
  int64_t total = 0;
  for (const LookupPart& part : parts) total += part.moved_rows() * part.segments.dim;
  return total;
}

template <class T>
void Copy(const T* from, int64_t count, T* to) {
  if (count > 0) std::memcpy(to, from, count * sizeof(T));
}

class LookupRequestOp final : public OpKernel {
 public:
  explicit LookupRequestOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n, num_pooled, num_zeroed, num_weights;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_pooled", &num_pooled));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_zeroed", &num_zeroed));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_weights", &num_weights));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("element_bytes", &element_bytes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dims", &dims_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("combiners", &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("trained", &trained_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("zeroed", &zeroed_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("weighted", &weighted_));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "dims", dims_.size(), n, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "combiners", combiners_.size(), n, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "trained", trained_.size(), n, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "zeroed", zeroed_.size(), n, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "weighted", weighted_.size(), n, false));
    int pooled = 0, zeroed = 0, weighted = 0;
    for (int i = 0; i < n; ++i) {
      if (combiners_[i] == "none") continue;
      ++pooled;
      zeroed += zeroed_[i];
      weighted += weighted_[i];
    }
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "idx", num_pooled, pooled, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "zero_rows", num_zeroed, zeroed, false));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "weights", num_weights, weighted, false));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<LookupPart> sent, kept;
    OP_REQUIRES_OK(ctx, ReadLookups(ctx, &sent));
    kept = sent;
    for (size_t i = 0; i < sent.size(); ++i) {
      kept[i].pooled = sent[i].pooled =
          sent[i].has_segments() && PoolingMovesLess(sent[i], element_bytes_, trained_[i]);
      kept[i].ids = nullptr;
      kept[i].id_bytes = 0;
      if (!sent[i].pooled) {
        PoolingSegments bare;
        bare.distinct = sent[i].segments.distinct;
        bare.dim = sent[i].segments.dim;
        sent[i].segments = bare;
        sent[i].places = 0;
      }
    }
    OP_REQUIRES_OK(ctx, Write(ctx, 0, sent));
    OP_REQUIRES_OK(ctx, Write(ctx, 1, kept));
  }

 private:
  static TfStatus Write(OpKernelContext* ctx, int index, const std::vector<LookupPart>& parts) {
    Tensor* message = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(index, {MessageBytes(parts)}, &message));
    WriteMessage(parts, reinterpret_cast<char*>(message->flat<uint8_t>().data()));
    return tensorflow::OkStatus();
  }

  TfStatus ReadLookups(OpKernelContext* ctx, std::vector<LookupPart>* parts) const {
    std::vector<const Tensor*> ids, idx, row_splits, zero_rows, weights;
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "ids", 1, &ids));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "idx", 1, &idx));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "row_splits", 1, &row_splits));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "zero_rows", 1, &zero_rows));
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "weights", 1, &weights));
    size_t pooled = 0, zeroed = 0, weighted = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      LookupPart part;
      part.ids = ids[i]->tensor_data().data();
      part.id_bytes = tensorflow::DataTypeSize(ids[i]->dtype());
      PoolingSegments& s = part.segments;
      s.distinct = ids[i]->NumElements();
      s.dim = dims_[i];
      if (combiners_[i] != "none") {
        s.combiner = combiners_[i] == "sum"    ? Combiner::kSum
                     : combiners_[i] == "mean" ? Combiner::kMean
                                               : Combiner::kSqrtN;
        const Tensor &places = *idx[pooled], &splits = *row_splits[pooled];
        ++pooled;
        if (splits.NumElements() < 1) return Invalid(*this, "row_splits is empty");
        s.rows = splits.NumElements() - 1;
        s.row_splits = splits.flat<int32_t>().data();
        s.idx = places.flat<int32_t>().data();
        part.places = places.NumElements();
        if (zeroed_[i]) {
          const Tensor& flags = *zero_rows[zeroed++];
          if (flags.NumElements() != s.rows) return Invalid(*this, "zero_rows and row_splits differ in length");
          s.zero_rows = flags.flat<bool>().data();
        }
        if (weighted_[i]) {
          const Tensor& factors = *weights[weighted++];
          if (factors.NumElements() != part.places) return Invalid(*this, "weights and idx differ in length");
          s.weights = factors.flat<float>().data();
        }
      }
      parts->push_back(part);
    }
    return tensorflow::OkStatus();
  }

  int64_t element_bytes_ = 0;
  std::vector<int64_t> dims_;
  std::vector<std::string> combiners_;
  std::vector<bool> trained_, zeroed_, weighted_;
};

template <class Id>
class RequestedIdsOp final : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::vector<LookupPart> parts;
    OP_REQUIRES_OK(ctx, ReadParts(ctx, "sent", num_outputs(), &parts));
    for (size_t i = 0; i < parts.size(); ++i) {
      OP_REQUIRES(ctx, parts[i].id_bytes == sizeof(Id), Invalid(*this, "the ids are of another type"));
      Tensor* ids = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), {parts[i].segments.distinct}, &ids));
      Copy(static_cast<const Id*>(parts[i].ids), ids->NumElements(), ids->flat<Id>().data());
    }
  }
};

template <class T>
class LookupReplyOp final : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> rows;
    std::vector<LookupPart> parts;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "rows", 2, &rows));
    OP_REQUIRES_OK(ctx, ReadParts(ctx, "sent", rows.size(), &parts));
    Tensor* reply = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {MovedElements(parts)}, &reply));
    T* to = reply->flat<T>().data();
    std::vector<PoolingJob<T>> jobs;
    for (size_t i = 0; i < parts.size(); ++i) {
      const PoolingSegments& s = parts[i].segments;
      OP_REQUIRES(ctx, rows[i]->dim_size(0) == s.distinct && rows[i]->dim_size(1) == s.dim,
                  Invalid(*this, "rows has shape " + rows[i]->shape().DebugString() + ", wanted [" +
                                     std::to_string(s.distinct) + "," + std::to_string(s.dim) + "]"));
      const T* from = rows[i]->flat<T>().data();
      if (parts[i].pooled) {
        jobs.push_back({s, from, to});
      } else {
        Copy(from, rows[i]->NumElements(), to);
      }
      to += parts[i].moved_rows() * s.dim;
    }
    TfParallelFor pf(ctx);
    Pool(jobs, pf);
  }
};

template <class T>
class RepliedLookupsOp final : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::vector<LookupPart> parts;
    OP_REQUIRES_OK(ctx, ReadParts(ctx, "kept", num_outputs(), &parts));
    const Tensor& reply = ctx->input(0);
    OP_REQUIRES(ctx, reply.NumElements() == MovedElements(parts), Invalid(*this, "reply is not of these lookups"));
    const T* from = reply.flat<T>().data();
    std::vector<PoolingJob<T>> jobs;
    for (size_t i = 0; i < parts.size(); ++i) {
      const PoolingSegments& s = parts[i].segments;
      Tensor* result = nullptr;
      const int64_t rows = parts[i].has_segments() ? s.rows : s.distinct;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), {rows, s.dim}, &result));
      if (parts[i].has_segments() && !parts[i].pooled) {
        jobs.push_back({s, from, result->flat<T>().data()});
      } else {
        Copy(from, result->NumElements(), result->flat<T>().data());
      }
      from += parts[i].moved_rows() * s.dim;
    }
    TfParallelFor pf(ctx);
    Pool(jobs, pf);
  }
};

template <class T>
class SendGradientsOp final : public OpKernel {
 public:
  explicit SendGradientsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("places", &places_));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "places", places_.size(), num_inputs() - 1, false));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<LookupPart> all, parts;
    std::vector<const Tensor*> grads;
    OP_REQUIRES_OK(ctx, ReadParts(ctx, "kept", -1, &all));
    OP_REQUIRES_OK(ctx, PartsAt(*this, all, places_, &parts));
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "grads", 2, &grads));
    Tensor* packed = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {MovedElements(parts)}, &packed));
    T* to = packed->flat<T>().data();
    std::vector<PoolingGradientJob<T>> jobs;
    for (size_t i = 0; i < parts.size(); ++i) {
      const PoolingSegments& s = parts[i].segments;
      const int64_t rows = parts[i].has_segments() ? s.rows : s.distinct;
      OP_REQUIRES(ctx, grads[i]->dim_size(0) == rows && grads[i]->dim_size(1) == s.dim,
                  Invalid(*this, "grads has shape " + grads[i]->shape().DebugString() + ", wanted [" +
                                     std::to_string(rows) + "," + std::to_string(s.dim) + "]"));
      const T* from = grads[i]->flat<T>().data();
      if (parts[i].has_segments() && !parts[i].pooled) {
        jobs.push_back({s, from, to});
      } else {
        Copy(from, grads[i]->NumElements(), to);
      }
      to += parts[i].moved_rows() * s.dim;
    }
    TfParallelFor pf(ctx);
    PoolGradient(jobs, pf);
  }

 private:
  std::vector<int64_t> places_;
};

template <class T>
class SentGradientsOp final : public OpKernel {
 public:
  explicit SentGradientsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("places", &places_));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "places", places_.size(), num_outputs(), false));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<LookupPart> all, parts;
    OP_REQUIRES_OK(ctx, ReadParts(ctx, "sent", -1, &all));
    OP_REQUIRES_OK(ctx, PartsAt(*this, all, places_, &parts));
    const Tensor& packed = ctx->input(1);
    OP_REQUIRES(ctx, packed.NumElements() == MovedElements(parts), Invalid(*this, "packed is not of these lookups"));
    const T* from = packed.flat<T>().data();
    std::vector<PoolingGradientJob<T>> jobs;
    for (size_t i = 0; i < parts.size(); ++i) {
      const PoolingSegments& s = parts[i].segments;
      Tensor* gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), {s.distinct, s.dim}, &gradient));
      if (parts[i].pooled) {
        jobs.push_back({s, from, gradient->flat<T>().data()});
      } else {
        Copy(from, gradient->NumElements(), gradient->flat<T>().data());
      }
      from += parts[i].moved_rows() * s.dim;
    }
    TfParallelFor pf(ctx);
    PoolGradient(jobs, pf);
  }

 private:
  std::vector<int64_t> places_;
};

class OpsFingerprintOp final : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::vector<tensorflow::OpDef> ops;
    tensorflow::OpRegistry::Global()->GetRegisteredOps(&ops);
    std::map<std::string, std::string> by_name;
    for (const tensorflow::OpDef& op : ops) {
      if (op.name().rfind("TfBooster", 0) == 0) by_name[op.name()] = op.SerializeAsString();
    }
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a.
    for (const auto& [name, definition] : by_name) {
      for (const unsigned char byte : definition) hash = (hash ^ byte) * 0x100000001b3u;
    }
    Tensor* fingerprint = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &fingerprint));
    fingerprint->scalar<int64_t>()() = static_cast<int64_t>(hash);
  }
};

}  // namespace

#define REGISTER_SERVER_LOOKUPS(T)                                                                               \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterLookupReply").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),    \
                          LookupReplyOp<T>);                                                                     \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterRepliedLookups").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          RepliedLookupsOp<T>);                                                                  \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterSendGradients").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),  \
                          SendGradientsOp<T>);                                                                   \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterSentGradients").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),  \
                          SentGradientsOp<T>)

REGISTER_SERVER_LOOKUPS(float);
REGISTER_SERVER_LOOKUPS(double);

#undef REGISTER_SERVER_LOOKUPS

REGISTER_KERNEL_BUILDER(Name("TfBoosterLookupRequest").Device(tensorflow::DEVICE_CPU), LookupRequestOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterRequestedIds").Device(tensorflow::DEVICE_CPU).TypeConstraint<int32_t>("Tids"),
                        RequestedIdsOp<int32_t>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterRequestedIds").Device(tensorflow::DEVICE_CPU).TypeConstraint<int64_t>("Tids"),
                        RequestedIdsOp<int64_t>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterOpsFingerprint").Device(tensorflow::DEVICE_CPU), OpsFingerprintOp);

}  // namespace tf_booster
