// What the ops of an owner of keys share: reading the ids that all ranks sent, and what later ops are told of them.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_OWNER_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_OWNER_OP_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/exchange/id_exchange.h"
#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class TableOwnerOp : public tensorflow::OpKernel {
 public:
  explicit TableOwnerOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int64_t> first_segments;
    std::string reduction;
    OP_REQUIRES_OK(ctx, ReadExchangeLayout(ctx, &layout_, &groups_, &first_segments));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reduction", &reduction));
    weighted_ = reduction == "average";
    if (reduction == "average_of_ranks") scale_ = static_cast<float>(1.0 / layout_.ranks);
  }

 protected:
  using TfStatus = tensorflow::Status;

  int num_probes() const { return static_cast<int>(groups_.size()); }

  // Of the message that is input `first`, with its splits behind it.
  TfStatus ReadIds(tensorflow::OpKernelContext* ctx, int first, ReceivedIds* received) const {
    const tensorflow::Tensor& message = ctx->input(first);
    const tensorflow::Tensor& splits = ctx->input(first + 1);
    TF_RETURN_IF_ERROR(CheckMessage(ctx, message, splits, layout_.ranks));
    return ToTensorFlow(
        received->Parse(layout_, message.flat<int32_t>().data(), message.NumElements(), splits.flat<int32_t>().data()),
        OpName());
  }

  // By what each rank's gradients are multiplied; 0 where none of its rows counts.
  TfStatus WriteScales(tensorflow::OpKernelContext* ctx, const ReceivedIds& received, int output) const {
    tensorflow::Tensor* scales = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {layout_.ranks}, &scales));
    double rows = 0;
    for (int32_t r = 0; r < layout_.ranks; ++r) rows += static_cast<double>(received.rows(r));
    for (int32_t r = 0; r < layout_.ranks; ++r) {
      const double own = static_cast<double>(received.rows(r));
      scales->flat<float>()(r) = own > 0 ? (weighted_ ? static_cast<float>(own / rows) : scale_) : 0.0f;
    }
    return tensorflow::OkStatus();
  }

  TfStatus WriteReceived(tensorflow::OpKernelContext* ctx, const ReceivedIds& received, int p,
                         const ReceivedIds::Merged& merged, int output) const {
    const int64_t segments = static_cast<int64_t>(layout_.probes[p].fields.size());
    tensorflow::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {layout_.ranks + 1, segments}, &tensor));
    int32_t* out = tensor->flat<int32_t>().data();
    for (int32_t r = 0; r < layout_.ranks; ++r) {
      for (int64_t s = 0; s < segments; ++s) *out++ = received.size(p, r, s);
    }
    std::copy(merged.sizes.begin(), merged.sizes.end(), out);
    return tensorflow::OkStatus();
  }

  // Whether a key came from ranks without rows alone.
  static bool HasUncounted(const ReceivedIds::Merged& merged) {
    return std::find(merged.counts.begin(), merged.counts.end(), 0) != merged.counts.end();
  }

  template <class T>
  static TfStatus Write(tensorflow::OpKernelContext* ctx, int output, const std::vector<T>& values) {
    using Element = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    tensorflow::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {static_cast<int64_t>(values.size())}, &tensor));
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(tensor->flat<Element>().data()));
    return tensorflow::OkStatus();
  }

  // "TableServe".
  std::string OpName() const { return type_string().substr(sizeof("TfBooster") - 1); }

  ExchangeLayout layout_;
  std::vector<int64_t> groups_;

 private:
  bool weighted_ = false;  // By the rows of each rank; else each has scale_.
  float scale_ = 1.0f;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_OWNER_OP_H_
