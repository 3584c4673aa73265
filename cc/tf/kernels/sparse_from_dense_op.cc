// TfBoosterSparseFromDense on the CPU.
#include <algorithm>
#include <vector>

#include "cc/core/pooling/picked_entries.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;

template <class T>
struct IsMissing {
  bool operator()(T value) const { return value == -1; }
};
template <>
struct IsMissing<tstring> {
  bool operator()(const tstring& value) const { return value.empty(); }
};

template <class T>
class SparseFromDenseOp final : public tensorflow::OpKernel {
 public:
  explicit SparseFromDenseOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n_));
  }

  void Compute(OpKernelContext* ctx) override {
    TfParallelFor pf(ctx);
    int64_t elements = 0;
    for (int i = 0; i < n_; ++i) elements += ctx->input(i).NumElements();
    const int64_t feature_ns = 50 + elements / n_;
    std::vector<int64_t> counts(n_);
    pf.Run(n_, feature_ns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Tensor& dense = ctx->input(static_cast<int>(i));
        counts[i] = CountEntries(dense.flat<T>().data(), dense.NumElements(), IsMissing<T>());
      }
    });
    std::vector<int64_t*> indices(n_);
    std::vector<T*> values(n_);
    for (int i = 0; i < n_; ++i) {
      Tensor *places = nullptr, *picked = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {counts[i], ctx->input(i).dims()}, &places));
      OP_REQUIRES_OK(ctx, ctx->allocate_output(n_ + i, {counts[i]}, &picked));
      indices[i] = places->flat<int64_t>().data();
      values[i] = picked->flat<T>().data();
    }
    pf.Run(n_, 3 * feature_ns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Tensor& dense = ctx->input(static_cast<int>(i));
        std::vector<int64_t> dims;
        for (int d = 0; d < dense.dims(); ++d) dims.push_back(dense.dim_size(d));
        PickEntries(dense.flat<T>().data(), dims, IsMissing<T>(), values[i], indices[i]);
      }
    });
  }

 private:
  int n_ = 0;
};

#define REGISTER(T)                                                                                               \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterSparseFromDense").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          SparseFromDenseOp<T>)
REGISTER(int32_t);
REGISTER(int64_t);
REGISTER(tstring);
#undef REGISTER

}  // namespace
}  // namespace tf_booster
