// TfBoosterMergeCheckpoints: the index of one checkpoint over the shards that ranks wrote. Only indices are read.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/kernels/checkpoint_writer.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace tf_booster {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::BundleEntryProto;
using tensorflow::BundleHeaderProto;
using tensorflow::TensorShape;
using tensorflow::TensorSlice;
using tensorflow::tstring;
using TfStatus = tensorflow::Status;

class Merge {
 public:
  TfStatus Add(const std::string& prefix) {
    tensorflow::BundleReader reader(tensorflow::Env::Default(), prefix);
    TF_RETURN_IF_ERROR(reader.status());
    BundleHeaderProto header;
    reader.Seek(tensorflow::kHeaderEntryKey);
    if (!reader.Valid() || !Parse(reader.value(), &header)) return Unreadable(prefix, "its header");
    if (files_.empty()) header_ = header;
    if (header.endianness() != header_.endianness()) return errors::InvalidArgument("'", prefix, "' has other bytes");
    const int first_shard = files_.size();
    for (int shard = 0; shard < header.num_shards(); ++shard) {
      files_.push_back(tensorflow::DataFilename(prefix, shard, header.num_shards()));
    }
    for (reader.Next(); reader.Valid(); reader.Next()) {
      BundleEntryProto entry;
      if (!Parse(reader.value(), &entry)) return Unreadable(prefix, std::string(reader.key()));
      if (entry.slices().empty()) entry.set_shard_id(entry.shard_id() + first_shard);
      entries_[std::string(reader.key())].push_back(std::move(entry));
    }
    return tensorflow::OkStatus();
  }

  // The data files, in the order of their shards.
  const std::vector<std::string>& files() const { return files_; }

  TfStatus Write(const std::string& path, int32_t num_shards) {
    std::map<std::string, std::string> lines;
    for (const auto& [name, parts] : entries_) TF_RETURN_IF_ERROR(Join(name, parts, &lines));
    header_.set_num_shards(num_shards);
    return WriteCheckpointIndex(path, header_, lines);
  }

 private:
  template <class Proto>
  static bool Parse(absl::string_view text, Proto* proto) {
    return proto->ParseFromArray(text.data(), static_cast<int>(text.size()));
  }

  static TfStatus Unreadable(const std::string& prefix, const std::string& what) {
    return errors::DataLoss("MergeCheckpoints: the index of '", prefix, "' cannot be read at ", what);
  }

  static TfStatus Join(const std::string& name, const std::vector<BundleEntryProto>& parts,
                       std::map<std::string, std::string>* lines) {
    const BundleEntryProto& first = parts[0];
    const TensorShape shape(first.shape());
    int64_t rows = 0, with_rows = 0;
    const BundleEntryProto* last = &first;
    for (const BundleEntryProto& part : parts) {
      TensorShape other(part.shape());
      if (parts.size() > 1 && !part.slices().empty()) {
        return errors::InvalidArgument("MergeCheckpoints: several checkpoints have '", name, "', and one in slices");
      }
      if (shape.dims() > 0 && other.dims() == shape.dims()) {
        rows += other.dim_size(0);
        if (other.num_elements() > 0) ++with_rows, last = &part;
        other.set_dim(0, shape.dim_size(0));
      }
      if (part.dtype() != first.dtype() || other != shape) {
        return errors::InvalidArgument("MergeCheckpoints: '", name, "' is of shape ", shape.DebugString(),
                                       " in one checkpoint and ", TensorShape(part.shape()).DebugString(),
                                       " in another, or of another dtype");
      }
    }
    if (shape.dims() == 0 || parts.size() == 1 || with_rows <= 1) {
      // A tensor without rows cannot be a slice, and a slice that is all of the tensor need not be one.
      (*lines)[name] = (shape.dims() == 0 ? first : *last).SerializeAsString();
      return tensorflow::OkStatus();
    }
    TensorShape whole = shape;
    whole.set_dim(0, rows);
    BundleEntryProto joined;
    joined.set_dtype(first.dtype());
    whole.AsProto(joined.mutable_shape());
    int64_t start = 0;
    for (const BundleEntryProto& part : parts) {
      const int64_t length = TensorShape(part.shape()).dim_size(0);
      if (length == 0) continue;
      TensorSlice slice(shape.dims());
      slice.set_start(0, start);
      slice.set_length(0, length);
      slice.AsProto(joined.add_slices());
      (*lines)[tensorflow::checkpoint::EncodeTensorNameSlice(name, slice)] = part.SerializeAsString();
      start += length;
    }
    (*lines)[name] = joined.SerializeAsString();
    return tensorflow::OkStatus();
  }

  BundleHeaderProto header_;
  std::map<std::string, std::vector<BundleEntryProto>> entries_;
  std::vector<std::string> files_;
};

}  // namespace

class MergeCheckpointsOp : public tensorflow::OpKernel {
 public:
  explicit MergeCheckpointsOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& prefixes = ctx->input(0);
    OP_REQUIRES(ctx, prefixes.dims() == 1 && prefixes.NumElements() > 0,
                errors::InvalidArgument("MergeCheckpoints: prefixes has the shape ", prefixes.shape().DebugString(),
                                        ", but must be a vector of at least 1"));
    for (const int i : {1, 2}) {
      OP_REQUIRES(ctx, ctx->input(i).dims() == 0,
                  errors::InvalidArgument("MergeCheckpoints: index and num_shards must be scalars"));
    }
    Merge merge;
    for (int64_t i = 0; i < prefixes.NumElements(); ++i) {
      OP_REQUIRES_OK(ctx, merge.Add(prefixes.vec<tstring>()(i)));
    }
    const int64_t files = merge.files().size();
    const int64_t asked = ctx->input(2).scalar<int64_t>()();
    OP_REQUIRES(ctx, asked == 0 || (asked >= files && asked < 100000),
                errors::InvalidArgument("MergeCheckpoints: num_shards is ", asked, " but there are ", files,
                                        " data files; give 0, or at least as many"));
    OP_REQUIRES_OK(ctx, merge.Write(ctx->input(1).scalar<tstring>()(), asked == 0 ? files : asked));
    tensorflow::Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {files}, &out));
    std::copy(merge.files().begin(), merge.files().end(), out->vec<tstring>().data());
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterMergeCheckpoints").Device(tensorflow::DEVICE_CPU), MergeCheckpointsOp);

}  // namespace tf_booster
