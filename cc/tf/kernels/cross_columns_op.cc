// TfBoosterCrossColumns on the CPU.
#include <limits>
#include <utility>
#include <vector>

#include "cc/core/base/job_ranges.h"
#include "cc/core/columns/crosses.h"
#include "cc/core/unique/scratch_array.h"
#include "cc/tf/kernels/hash_buckets.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;

// What one feature gives to the crosses that it is a key of.
struct Feature {
  const Tensor* given = nullptr;
  const Tensor* indices = nullptr;  // Of a sparse one.
  int64_t rows = 0;
  bool skips_missing = false;
  ScratchArray<uint64_t> converted;
  std::vector<int64_t> starts;
  CrossKey key;

  int64_t size() const { return given->NumElements(); }
  bool is_as_given() const { return given->dtype() == tensorflow::DT_INT64 && !skips_missing; }
};

template <class T>
uint64_t NumberOf(T value) {
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}
uint64_t NumberOf(const tstring& text) { return Fingerprint(text); }

template <class T>
bool IsMissing(T value) {
  return value == -1;
}
bool IsMissing(const tstring& text) { return text.empty(); }

// The elements [begin, end) as numbers, which a feature with missing ones has at their old places.
template <class T>
void Convert(Feature* feature, int64_t begin, int64_t end) {
  const T* given = feature->given->flat<T>().data();
  uint64_t* out = feature->converted.data();
  for (int64_t i = begin; i < end; ++i) out[i] = NumberOf(given[i]);
}

// Closes the gaps of what is missing.
template <class T>
void Compact(Feature* feature) {
  const T* given = feature->given->flat<T>().data();
  uint64_t* out = feature->converted.data();
  const int64_t of_row = feature->given->dim_size(1);
  int64_t n = 0;
  feature->starts.reserve(feature->rows + 1);
  for (int64_t row = 0, i = 0; row < feature->rows; ++row) {
    feature->starts.push_back(n);
    for (const int64_t end = i + of_row; i < end; ++i) {
      if (!IsMissing(given[i])) out[n++] = out[i];
    }
  }
  feature->starts.push_back(n);
}

// As SparseCross reads indices: a row's entries are those that stand in its turn, and what is out of order in none.
void FindRows(Feature* feature) {
  const int64_t n = feature->size();
  const int64_t* indices = feature->indices->flat<int64_t>().data();
  feature->starts.reserve(feature->rows + 1);
  int64_t i = 0;
  for (int64_t row = 0; row < feature->rows; ++row) {
    feature->starts.push_back(i);
    while (i < n && indices[2 * i] == row) ++i;
  }
  feature->starts.push_back(i);
}

template <class Body>
void WithType(const Feature& feature, Body body) {
  switch (feature.given->dtype()) {
    case tensorflow::DT_INT32:
      return body(int32_t());
    case tensorflow::DT_INT64:
      return body(int64_t());
    default:
      return body(tstring());
  }
}

class CrossColumnsOp final : public tensorflow::OpKernel {
 public:
  explicit CrossColumnsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int64_t> keys, num_keys;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_sparse", &num_sparse_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("skip_missing", &skip_missing_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_keys", &num_keys));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_buckets", &num_buckets_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("hash_keys", &hash_keys_));
    num_features_ = ctx->num_inputs() - 2 * num_sparse_;
    OP_REQUIRES(ctx, num_features_ >= num_sparse_,
                Invalid(num_features_, " features, wanted at least the ", num_sparse_, " sparse ones"));
    OP_REQUIRES_OK(ctx, CheckSize("skip_missing", skip_missing_.size(), num_features_, "features"));
    OP_REQUIRES_OK(ctx, CheckSize("num_keys", num_keys.size(), n_, "crosses"));
    OP_REQUIRES_OK(ctx, CheckSize("num_buckets", num_buckets_.size(), n_, "crosses"));
    OP_REQUIRES_OK(ctx, CheckSize("hash_keys", hash_keys_.size(), n_, "crosses"));
    for (int i = 0; i < num_sparse_; ++i) {
      OP_REQUIRES(ctx, !skip_missing_[i], Invalid("skip_missing[", i, "] is true, but that feature is sparse"));
    }
    size_t next = 0;
    for (const int64_t count : num_keys) {
      OP_REQUIRES(ctx, count >= 1 && count <= static_cast<int64_t>(keys.size() - next),
                  Invalid("num_keys has ", count, ", wanted at least 1, and as many keys in all as there are"));
      keys_.emplace_back(keys.begin() + next, keys.begin() + next + count);
      next += count;
    }
    OP_REQUIRES_OK(ctx, CheckSize("keys", keys.size(), next, "num_keys in all"));
    for (const int64_t key : keys) {
      OP_REQUIRES(ctx, key >= 0 && key < num_features_,
                  Invalid("keys has ", key, ", wanted one of ", num_features_, " features"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<Feature> features(num_features_);
    for (int i = 0; i < num_features_; ++i) OP_REQUIRES_OK(ctx, Read(ctx, i, &features[i]));
    TfParallelFor pf(ctx);
    ConvertAll(&features, pf);
    pf.Run(num_features_, 20 + 3 * features[0].rows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Finish(&features[i]);
    });
    std::vector<Cross> crosses(n_);
    for (int i = 0; i < n_; ++i) OP_REQUIRES_OK(ctx, Allocate(ctx, features, i, &crosses[i]));
    WriteCrosses(crosses, pf);
  }

 private:
  template <class... Args>
  Status Invalid(const Args&... args) const {
    return tensorflow::errors::InvalidArgument("CrossColumns '", name(), "': ", args...);
  }

  Status CheckSize(const char* attr, size_t size, size_t wanted, const char* of) const {
    if (size == wanted) return tensorflow::OkStatus();
    return Invalid(attr, " has ", size, " entries, wanted ", wanted, ", as many as ", of);
  }

  Status Read(OpKernelContext* ctx, int i, Feature* feature) const {
    feature->given = &ctx->input(2 * num_sparse_ + i);
    feature->skips_missing = skip_missing_[i];
    if (i >= num_sparse_) {
      if (feature->given->dims() != 2) {
        return Invalid("features[", i, "] has shape ", feature->given->shape().DebugString(),
                       ", wanted [rows, values of a row]");
      }
      feature->rows = feature->given->dim_size(0);
      return tensorflow::OkStatus();
    }
    const Tensor &indices = ctx->input(i), &shape = ctx->input(num_sparse_ + i);
    if (feature->given->dims() != 1 || indices.dims() != 2 || indices.dim_size(1) != 2 ||
        indices.dim_size(0) != feature->given->dim_size(0)) {
      return Invalid("indices[", i, "] has shape ", indices.shape().DebugString(), " and features[", i, "] ",
                     feature->given->shape().DebugString(), ", wanted [entries, 2] and [entries]");
    }
    if (shape.dims() != 1 || shape.dim_size(0) != 2) {
      return Invalid("dense_shapes[", i, "] has shape ", shape.shape().DebugString(), ", wanted [2]");
    }
    feature->indices = &indices;
    feature->rows = shape.flat<int64_t>()(0);
    if (feature->rows < 0 || feature->rows > std::numeric_limits<int32_t>::max()) {
      return Invalid("dense_shapes[", i, "] has ", feature->rows, " rows, wanted 0 to 2^31 - 1");
    }
    return tensorflow::OkStatus();
  }

  // Fingerprints of all texts, as one loop: that of one long feature is shared by threads, too.
  static void ConvertAll(std::vector<Feature>* features, ParallelFor& pf) {
    std::vector<Feature*> all;
    std::vector<int64_t> sizes;
    int64_t ns = 0;
    for (Feature& feature : *features) {
      if (feature.is_as_given()) continue;
      feature.converted = ScratchArray<uint64_t>(feature.size(), ScratchContents::kUndefined);
      all.push_back(&feature);
      sizes.push_back(feature.size());
      ns += 7 * feature.size();
    }
    JobRanges(sizes, ns).Run(pf, [&](size_t i, int64_t begin, int64_t end) {
      WithType(*all[i], [&](const auto& zero) { Convert<std::decay_t<decltype(zero)>>(all[i], begin, end); });
    });
  }

  static void Finish(Feature* feature) {
    if (feature->indices != nullptr) {
      FindRows(feature);
    } else if (feature->skips_missing) {
      WithType(*feature, [&](const auto& zero) { Compact<std::decay_t<decltype(zero)>>(feature); });
    }
    CrossKey& key = feature->key;
    key.values = feature->is_as_given() ? reinterpret_cast<const uint64_t*>(feature->given->flat<int64_t>().data())
                                        : feature->converted.data();
    if (feature->starts.empty()) {
      key.of_row = feature->given->dim_size(1);
    } else {
      key.starts = feature->starts.data();
    }
  }

  Status Allocate(OpKernelContext* ctx, const std::vector<Feature>& features, int i, Cross* cross) const {
    cross->hash_key = static_cast<uint64_t>(hash_keys_[i]);
    cross->buckets = num_buckets_[i];
    cross->rows = features[keys_[i][0]].rows;
    for (const int64_t key : keys_[i]) {
      if (features[key].rows != cross->rows) {
        return Invalid("features[", key, "] has ", features[key].rows, " rows, wanted ", cross->rows, ", as features[",
                       keys_[i][0], "] has, which it is crossed with");
      }
      cross->keys.push_back(features[key].key);
    }
    if (!CountCrosses(cross)) return Invalid("cross ", i, " would have more than 2^46 results");
    Tensor *indices = nullptr, *values = nullptr, *shape = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, {cross->total, 2}, &indices));
    TF_RETURN_IF_ERROR(ctx->allocate_output(n_ + i, {cross->total}, &values));
    TF_RETURN_IF_ERROR(ctx->allocate_output(2 * n_ + i, {2}, &shape));
    cross->indices = indices->flat<int64_t>().data();
    cross->values = values->flat<int64_t>().data();
    shape->flat<int64_t>()(0) = cross->rows;
    shape->flat<int64_t>()(1) = cross->of_row;
    return tensorflow::OkStatus();
  }

  int n_ = 0, num_sparse_ = 0, num_features_ = 0;
  std::vector<bool> skip_missing_;
  std::vector<int64_t> num_buckets_, hash_keys_;
  std::vector<std::vector<int64_t>> keys_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterCrossColumns").Device(tensorflow::DEVICE_CPU), CrossColumnsOp);

}  // namespace
}  // namespace tf_booster
