// What the kernels of TfBoosterMultiBucketize for CPU and GPU have in common: attributes, inputs and outputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_MULTI_BUCKETIZE_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_MULTI_BUCKETIZE_OP_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/core/columns/multi_bucketize.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

template <class T>
class MultiBucketizeOpBase : public tensorflow::OpKernel {
 public:
  explicit MultiBucketizeOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("boundaries", &boundaries_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_boundaries", &num_boundaries_));
    OP_REQUIRES(ctx, static_cast<int>(num_boundaries_.size()) == ctx->num_inputs(),
                Invalid("num_boundaries has ", num_boundaries_.size(), " entries, wanted ", ctx->num_inputs(),
                        ", as many as numbers"));
    int64_t first = 0;
    for (const int32_t count : num_boundaries_) {
      const int64_t left = static_cast<int64_t>(boundaries_.size()) - first;
      OP_REQUIRES(ctx, count >= 0 && count <= left,
                  Invalid("num_boundaries has ", count, ", wanted 0 to the ", left, " boundaries that are left"));
      const auto begin = boundaries_.begin() + first;
      OP_REQUIRES(ctx, std::is_sorted(begin, begin + count),
                  Invalid("boundaries of numbers[", first_.size(), "] fall, wanted ascending ones"));
      first_.push_back(first);
      first += count;
    }
    OP_REQUIRES(ctx, first == static_cast<int64_t>(boundaries_.size()),
                Invalid(boundaries_.size(), " boundaries, wanted ", first, ", the num_boundaries in all"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<Bucketize<T>> all;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const tensorflow::Tensor& numbers = ctx->input(i);
      tensorflow::Tensor* buckets = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, numbers.shape(), &buckets));
      all.push_back({numbers.flat<T>().data(), numbers.NumElements(), boundaries_.data() + first_[i],
                     num_boundaries_[i], buckets->flat<int32_t>().data()});
    }
    OP_REQUIRES_OK(ctx, Write(ctx, all));
  }

 protected:
  const std::vector<float>& boundaries() const { return boundaries_; }

 private:
  virtual tensorflow::Status Write(tensorflow::OpKernelContext* ctx, const std::vector<Bucketize<T>>& all) const = 0;

  template <class... Args>
  tensorflow::Status Invalid(const Args&... args) const {
    return tensorflow::errors::InvalidArgument("MultiBucketize '", name(), "': ", args...);
  }

  std::vector<float> boundaries_;
  std::vector<int32_t> num_boundaries_;
  std::vector<int64_t> first_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_MULTI_BUCKETIZE_OP_H_
