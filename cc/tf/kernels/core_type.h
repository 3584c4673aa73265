// TensorFlow's numbers of 16 bits as cc/core has them: the same bits.
#ifndef TF_BOOSTER_CC_TF_KERNELS_CORE_TYPE_H_
#define TF_BOOSTER_CC_TF_KERNELS_CORE_TYPE_H_

#include "cc/core/base/half.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_booster {

template <class T>
struct CoreType {
  using Type = T;
};
template <>
struct CoreType<Eigen::half> {
  using Type = Float16;
};
template <>
struct CoreType<Eigen::bfloat16> {
  using Type = BFloat16;
};

template <class T>
const typename CoreType<T>::Type* CoreNumbers(const tensorflow::Tensor& tensor) {
  return reinterpret_cast<const typename CoreType<T>::Type*>(tensor.flat<T>().data());
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_CORE_TYPE_H_
