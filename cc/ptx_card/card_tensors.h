// Tensors between the host's memory and the PTX machine's.
#ifndef TF_BOOSTER_CC_PTX_CARD_CARD_TENSORS_H_
#define TF_BOOSTER_CC_PTX_CARD_CARD_TENSORS_H_

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_booster::card {

// Told from its address. What has no elements is nowhere.
bool IsOnCard(const tensorflow::Tensor& tensor);

// What a GPU's kernels have on the card unless they say otherwise; strings, handles and variants never are.
inline bool IsPlain(tensorflow::DataType type) { return tensorflow::DataTypeCanUseMemcpy(type); }

// A copy in host memory of a tensor that is on the card. Waits.
tensorflow::Status ToHost(const tensorflow::OpKernel& op, const tensorflow::Tensor& on_card, tensorflow::Tensor* host);

// `on_card` has the bytes of `from`, which is in either memory; both have one type and shape. Waits.
tensorflow::Status CopyToCard(const tensorflow::OpKernel& op, const tensorflow::Tensor& from,
                              tensorflow::Tensor* on_card);

// The same into a new tensor of the context's device.
tensorflow::Status NewOnCard(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& from,
                             tensorflow::Tensor* on_card);

// Both without a value, or of one shape and the same bytes; in host memory.
bool Equal(const tensorflow::Tensor& a, const tensorflow::Tensor& b);

// An error unless the tensor is where it is wanted.
tensorflow::Status CheckPlace(const tensorflow::OpKernel& op, int input, const tensorflow::Tensor& given,
                              bool wants_card);

}  // namespace tf_booster::card

#endif  // TF_BOOSTER_CC_PTX_CARD_CARD_TENSORS_H_
