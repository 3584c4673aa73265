// TfBoosterTakeRows and TfBoosterTakeSparseRows: rows of many tensors by one op.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/core/repeats/entries_by_row.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;

// One item after the other, of a size that the compiler knows: memcpy of a few bytes is a call that costs more.
template <int64_t kBytes, class Index>
void CopyRows(const char* from, const Index* rows, int64_t begin, int64_t end, char* to) {
  for (int64_t j = begin; j < end; ++j) std::memcpy(to + j * kBytes, from + rows[j] * kBytes, kBytes);
}

template <class Index>
void CopyRows(const char* from, int64_t bytes, const Index* rows, int64_t begin, int64_t end, char* to) {
  if (bytes == 4) return CopyRows<4>(from, rows, begin, end, to);
  if (bytes == 8) return CopyRows<8>(from, rows, begin, end, to);
  if (bytes == 64) return CopyRows<64>(from, rows, begin, end, to);
  for (int64_t j = begin; j < end; ++j) std::memcpy(to + j * bytes, from + rows[j] * bytes, bytes);
}

template <class Index>
void TakeRows(const Tensor& from, const Index* rows, int64_t begin, int64_t end, Tensor* to) {
  const int64_t items = from.dim_size(0) == 0 ? 0 : from.NumElements() / from.dim_size(0);
  if (from.dtype() == tensorflow::DT_STRING) {
    const tstring* texts = from.flat<tstring>().data();
    tstring* out = to->flat<tstring>().data();
    for (int64_t j = begin; j < end; ++j) std::copy_n(texts + rows[j] * items, items, out + j * items);
  } else {
    const int64_t bytes = items * tensorflow::DataTypeSize(from.dtype());
    CopyRows(from.tensor_data().data(), bytes, rows, begin, end, const_cast<char*>(to->tensor_data().data()));
  }
}

template <class Index>
class TakeRowsOp final : public tensorflow::OpKernel {
 public:
  explicit TakeRowsOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    for (const tensorflow::DataType type : output_types()) {
      OP_REQUIRES(ctx, tensorflow::DataTypeCanUseMemcpy(type) || type == tensorflow::DT_STRING,
                  InvalidArgument("TakeRows '", name(), "': values are ", tensorflow::DataTypeString(type),
                                  "; wanted numbers, bool or string"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const int count = ctx->num_inputs() - 1;
    const Tensor& rows = ctx->input(count);
    OP_REQUIRES(ctx, rows.dims() == 1,
                InvalidArgument("TakeRows '", name(), "': rows is ", rows.shape().DebugString(), "; wanted a vector"));
    const Index* wanted = rows.flat<Index>().data();
    const int64_t taken = rows.NumElements();
    Index least = 0, greatest = -1;
    for (int64_t j = 0; j < taken; ++j) {
      least = std::min(least, wanted[j]);
      greatest = std::max(greatest, wanted[j]);
    }
    int64_t bytes = 0;
    std::vector<Tensor*> out(count, nullptr);
    for (int i = 0; i < count; ++i) {
      const Tensor& value = ctx->input(i);
      OP_REQUIRES(ctx, value.dims() > 0,
                  InvalidArgument("TakeRows '", name(), "': value ", i, " is a scalar; it must have rows"));
      OP_REQUIRES(ctx, least >= 0 && greatest < value.dim_size(0),
                  InvalidArgument("TakeRows '", name(), "': rows has ", least < 0 ? least : greatest, ", but value ", i,
                                  " has ", value.dim_size(0), " rows"));
      tensorflow::TensorShape shape = value.shape();
      shape.set_dim(0, taken);
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shape, &out[i]));
      bytes += static_cast<int64_t>(out[i]->TotalBytes());
    }
    if (taken == 0) return;
    constexpr int64_t kBytesANs = 8;
    TfParallelFor pf(ctx);
    pf.Run(taken, bytes / taken / kBytesANs + 2 * count, [&](int64_t begin, int64_t end) {
      for (int i = 0; i < count; ++i) TakeRows(ctx->input(i), wanted, begin, end, out[i]);
    });
  }
};

class TakeSparseRowsOp final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor &indices = ctx->input(0), &values = ctx->input(1), &shape = ctx->input(2), &rows = ctx->input(3);
    OP_REQUIRES(
        ctx,
        indices.dims() == 2 && values.dims() == 1 && shape.dims() == 1 && rows.dims() == 1 &&
            indices.dim_size(0) == values.dim_size(0) && indices.dim_size(1) == shape.dim_size(0) &&
            shape.dim_size(0) > 0 && shape.vec<int64_t>()(0) >= 0,
        InvalidArgument("TakeSparseRows '", name(), "': indices is ", indices.shape().DebugString(), ", values ",
                        values.shape().DebugString(), ", dense_shape ", shape.shape().DebugString(),
                        "; wanted [n, rank], [n] and [rank], of which the first is not negative"));
    OP_REQUIRES(ctx, indices.dim_size(0) < std::numeric_limits<int32_t>::max(),
                InvalidArgument("TakeSparseRows '", name(), "': indices has 2^31 entries or more"));
    const int64_t rank = indices.dim_size(1), all_rows = shape.vec<int64_t>()(0);
    const int64_t* places = indices.flat<int64_t>().data();
    EntriesByRow entries;
    const Status sorted = EntriesByRow::Of(places, indices.dim_size(0), rank, all_rows, &entries);
    OP_REQUIRES(ctx, sorted.ok(), InvalidArgument("TakeSparseRows '", name(), "': ", sorted.message()));
    const int32_t* wanted = rows.flat<int32_t>().data();
    std::vector<int32_t> order;
    std::vector<int64_t> row_of;
    for (int64_t j = 0; j < rows.NumElements(); ++j) {
      OP_REQUIRES(ctx, wanted[j] >= 0 && wanted[j] < all_rows,
                  InvalidArgument("TakeSparseRows '", name(), "': rows has ", wanted[j], ", but there are ", all_rows));
      for (int64_t place = entries.begin(wanted[j]); place < entries.end(wanted[j]); ++place) {
        order.push_back(static_cast<int32_t>(entries.entry(place)));
        row_of.push_back(j);
      }
    }
    const int64_t size = static_cast<int64_t>(order.size());
    Tensor *taken_indices = nullptr, *taken_values = nullptr, *taken_shape = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {size, rank}, &taken_indices));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {size}, &taken_values));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {rank}, &taken_shape));
    int64_t* out = taken_indices->flat<int64_t>().data();
    for (int64_t i = 0; i < size; ++i) {
      std::copy_n(places + order[i] * rank, rank, out + i * rank);
      out[i * rank] = row_of[i];
    }
    if (size > 0) TakeRows(values, order.data(), 0, size, taken_values);
    std::copy_n(shape.flat<int64_t>().data(), rank, taken_shape->flat<int64_t>().data());
    taken_shape->flat<int64_t>()(0) = rows.NumElements();
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTakeRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<int32_t>("Tindex"),
                        TakeRowsOp<int32_t>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTakeRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<int64_t>("Tindex"),
                        TakeRowsOp<int64_t>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTakeSparseRows").Device(tensorflow::DEVICE_CPU), TakeSparseRowsOp);

}  // namespace
}  // namespace tf_booster
