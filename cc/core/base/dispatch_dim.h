#ifndef TF_BOOSTER_CC_CORE_BASE_DISPATCH_DIM_H_
#define TF_BOOSTER_CC_CORE_BASE_DISPATCH_DIM_H_

#include <cstdint>
#include <type_traits>

namespace tf_booster {

// Calls body(constant), where constant.value is `dim` for dimensions that are common and 0 for others.
template <class Body>
inline void DispatchDim(int64_t dim, Body body) {
  switch (dim) {
    case 1:
      return body(std::integral_constant<int64_t, 1>());
    case 4:
      return body(std::integral_constant<int64_t, 4>());
    case 8:
      return body(std::integral_constant<int64_t, 8>());
    case 16:
      return body(std::integral_constant<int64_t, 16>());
    case 32:
      return body(std::integral_constant<int64_t, 32>());
    case 64:
      return body(std::integral_constant<int64_t, 64>());
    case 128:
      return body(std::integral_constant<int64_t, 128>());
    default:
      return body(std::integral_constant<int64_t, 0>());
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_DISPATCH_DIM_H_
