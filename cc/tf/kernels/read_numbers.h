// Numbers in texts, to the bits that TensorFlow's own ops give: plain ones by cc/core/text, odd ones by TensorFlow.
#ifndef TF_BOOSTER_CC_TF_KERNELS_READ_NUMBERS_H_
#define TF_BOOSTER_CC_TF_KERNELS_READ_NUMBERS_H_

#include <cstdint>
#include <string_view>

#include "cc/core/text/plain_numbers.h"
#include "tensorflow/core/lib/strings/numbers.h"

namespace tf_booster {

// False: `text` is no number of that type.
inline bool ReadNumber(std::string_view text, int32_t* value) {
  return ReadPlain(text, value) || tensorflow::strings::safe_strto32(text, value);
}
inline bool ReadNumber(std::string_view text, int64_t* value) {
  return ReadPlain(text, value) || tensorflow::strings::safe_strto64(text, value);
}
inline bool ReadNumber(std::string_view text, float* value) {
  return ReadPlain(text, value) || tensorflow::strings::safe_strtof(text, value);
}
inline bool ReadNumber(std::string_view text, double* value) {
  return ReadPlain(text, value) || tensorflow::strings::safe_strtod(text, value);
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_READ_NUMBERS_H_
