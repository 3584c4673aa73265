// TfBoosterPrepareLookups: the ids of many lookups, pruned, filled, sorted by row and without duplicates.
#include <algorithm>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/pooling/lookup_input.h"
#include "cc/core/unique/scratch_array.h"
#include "cc/core/unique/unique.h"
#include "cc/tf/kernels/hash_buckets.h"
#include "cc/tf/kernels/prepare_lookups_op.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;

// Source: of `values`; Id: of the ids, to which int32 is widened and strings are hashed.
template <class Source, class Id>
class PrepareLookupsOp final : public PrepareLookupsBase {
 public:
  explicit PrepareLookupsOp(OpKernelConstruction* ctx) : PrepareLookupsBase(ctx) {
    const bool hashed = std::is_same_v<Source, tensorflow::tstring>;
    for (const int64_t buckets : hash_buckets_) {
      OP_REQUIRES(ctx, buckets >= (hashed ? 1 : 0),
                  Invalid("hash_buckets must be positive for strings, else 0 or more"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<Lookup> lookups(n_);
    OP_REQUIRES_OK(ctx, ReadInputs(ctx, &lookups));
    TfParallelFor pf(ctx);
    const auto each = [&](auto body) {
      pf.Run(n_, TotalNs(lookups) / n_, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i);
      });
    };
    each([&](int64_t i) { ConvertIds(&lookups[i], hash_buckets_[i]); });
    for (int i = 0; i < n_; ++i) OP_REQUIRES_OK(ctx, AllocateRows(ctx, i, &lookups[i]));
    each([&](int64_t i) { CountRowsOf(&lookups[i]); });
    for (int i = 0; i < n_; ++i) {
      OP_REQUIRES_OK(ctx, Convert(lookups[i].status, i));
      OP_REQUIRES_OK(ctx, AllocatePlaces(ctx, i, &lookups[i]));
    }
    std::mutex allocating;
    each([&](int64_t i) {
      if (distinct_) {
        Finish(ctx, i, &lookups[i], &allocating);
      } else {
        PutIds(ctx, i, &lookups[i], &allocating);
      }
    });
    for (int i = 0; i < n_; ++i) {
      OP_REQUIRES_OK(ctx, lookups[i].allocated);
      OP_REQUIRES_OK(ctx, Convert(lookups[i].status, i));
    }
  }

 private:
  struct Lookup {
    const Source* source = nullptr;
    LookupInput<Id> input;
    LookupCounts counts;
    ScratchArray<Id> converted;
    int32_t* row_splits = nullptr;
    bool* row_is_empty = nullptr;
    int32_t* idx = nullptr;
    float* weights = nullptr;
    int64_t rows = 0;
    Status status;
    TfStatus allocated;
  };

  TfStatus Convert(const Status& status, int i) const {
    if (status.ok()) return tensorflow::OkStatus();
    return ToTensorFlow(status, "PrepareLookups", "lookup " + std::to_string(i) + " of '" + name() + "'");
  }

  // About 12 ns an id: counting, filling, unique.
  static int64_t TotalNs(const std::vector<Lookup>& lookups) {
    int64_t ids = 0;
    for (const Lookup& lookup : lookups) ids += lookup.input.n + lookup.rows;
    return ids * (std::is_same_v<Source, tensorflow::tstring> ? 30 : 12);
  }

  TfStatus ReadInputs(OpKernelContext* ctx, std::vector<Lookup>* lookups) const {
    std::vector<Shape> shapes;
    Tensors tensors;
    TF_RETURN_IF_ERROR(ReadTensors(ctx, &tensors, &shapes));
    // An empty tensor has no memory, but null would say that there are no weights, or that ids are dense.
    static const float kNoWeight = 0.0f;
    static const int64_t kNoIndex = 0;
    for (int i = 0; i < n_; ++i) {
      Lookup& lookup = (*lookups)[i];
      LookupInput<Id>& input = lookup.input;
      const Shape& shape = shapes[i];
      lookup.source = tensors.values[i]->flat<Source>().data();
      input.n = shape.n;
      input.default_id = static_cast<Id>(default_ids_[i]);
      input.leading_dims = leading_dims_[i];
      input.rank = shape.rank;
      input.rows = shape.rows;
      input.width = shape.width;
      if (!tensors.weights.empty()) input.weights = input.n > 0 ? tensors.weights[i]->flat<float>().data() : &kNoWeight;
      if (sparse_) input.indices = input.n > 0 ? tensors.indices[i]->flat<int64_t>().data() : &kNoIndex;
      if (!tensors.dense_shapes.empty()) input.dense_shape = tensors.dense_shapes[i]->flat<int64_t>().data();
      if constexpr (std::is_same_v<Source, Id>) input.values = lookup.source;
    }
    return tensorflow::OkStatus();
  }

  // Strings and integers to their buckets, int32 to int64.
  static void ConvertIds(Lookup* lookup, int64_t buckets) {
    if (buckets == 0 && std::is_same_v<Source, Id>) return;
    lookup->converted = ScratchArray<Id>(lookup->input.n, ScratchContents::kUndefined);
    Id* out = lookup->converted.data();
    if (buckets > 0) {
      HashToBuckets(lookup->source, lookup->input.n, buckets, lookup->input.dense(), out);
    } else if constexpr (!std::is_same_v<Source, tensorflow::tstring>) {
      std::copy(lookup->source, lookup->source + lookup->input.n, out);
    }
    lookup->input.values = out;
  }

  TfStatus AllocateRows(OpKernelContext* ctx, int i, Lookup* lookup) {
    TF_RETURN_IF_ERROR(Convert(RowsOf(lookup->input, rules_, &lookup->rows), i));
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(2 * n_ + i, {lookup->rows + 1}, &tensor));
    lookup->row_splits = tensor->flat<int32_t>().data();
    if (!rules_.fill_rows) return tensorflow::OkStatus();
    TF_RETURN_IF_ERROR(ctx->allocate_output(3 * n_ + i, {lookup->rows}, &tensor));
    lookup->row_is_empty = tensor->flat<bool>().data();
    return tensorflow::OkStatus();
  }

  void CountRowsOf(Lookup* lookup) const {
    lookup->status =
        CountRows(lookup->input, rules_, lookup->rows, lookup->row_splits, lookup->row_is_empty, &lookup->counts);
  }

  TfStatus AllocatePlaces(OpKernelContext* ctx, int i, Lookup* lookup) const {
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(n_ + i, {distinct_ ? lookup->counts.ids : 0}, &tensor));
    lookup->idx = tensor->flat<int32_t>().data();
    if (lookup->input.weights == nullptr) return tensorflow::OkStatus();
    TF_RETURN_IF_ERROR(ctx->allocate_output(first_weight() + i, {lookup->counts.ids}, &tensor));
    lookup->weights = tensor->flat<float>().data();
    return tensorflow::OkStatus();
  }

  // The output of so many ids, unless `lookup->allocated` says why there is none.
  Id* AllocateIds(OpKernelContext* ctx, int i, int64_t size, Lookup* lookup, std::mutex* allocating) const {
    std::lock_guard<std::mutex> lock(*allocating);  // A context serves one thread at a time.
    Tensor* ids = nullptr;
    lookup->allocated = ctx->allocate_output(i, {size}, &ids);
    return lookup->allocated.ok() ? ids->template flat<Id>().data() : nullptr;
  }

  // The id of each place. Where those are the input, as in most batches, its memory is passed on.
  void PutIds(OpKernelContext* ctx, int i, Lookup* lookup, std::mutex* allocating) const {
    if constexpr (std::is_same_v<Source, Id>) {
      Tensor ids;
      if (lookup->counts.as_given && hash_buckets_[i] == 0 &&
          ids.CopyFrom(ctx->input(i), TensorShape({lookup->counts.ids}))) {
        std::lock_guard<std::mutex> lock(*allocating);
        return ctx->set_output(i, ids);
      }
    }
    Id* const ids = AllocateIds(ctx, i, lookup->counts.ids, lookup, allocating);
    if (!lookup->allocated.ok()) return;
    FillRows(lookup->input, rules_, lookup->counts, lookup->row_splits, ids, lookup->weights);
  }

  void Finish(OpKernelContext* ctx, int i, Lookup* lookup, std::mutex* allocating) {
    const Id* all = lookup->input.values;
    ScratchArray<Id> filled;
    if (!lookup->counts.as_given) {
      filled = ScratchArray<Id>(lookup->counts.ids, ScratchContents::kUndefined);
      FillRows(lookup->input, rules_, lookup->counts, lookup->row_splits, filled.data(), lookup->weights);
      all = filled.data();
    }
    const auto allocate = [&](int64_t size, Id** values, int64_t**) {
      *values = AllocateIds(ctx, i, size, lookup, allocating);
      return lookup->allocated.ok() ? Status() : Status(StatusCode::kInternal, "ids were not allocated");
    };
    UniqueOptions options;
    options.in_order = true;  // As TensorFlow's Unique.
    SerialFor serial;
    lookup->status = Unique<Id, int32_t>(all, lookup->counts.ids, options, lookup->idx, allocate, serial);
  }
};

#define REGISTER_PREPARE_LOOKUPS(Source, Id)                  \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPrepareLookups")     \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<Source>("T")    \
                              .TypeConstraint<Id>("Tids"),    \
                          PrepareLookupsOp<Source, Id>)

REGISTER_PREPARE_LOOKUPS(int32_t, int32_t);
REGISTER_PREPARE_LOOKUPS(int32_t, int64_t);
REGISTER_PREPARE_LOOKUPS(int64_t, int64_t);
REGISTER_PREPARE_LOOKUPS(tensorflow::tstring, int64_t);

#undef REGISTER_PREPARE_LOOKUPS

}  // namespace tf_booster
