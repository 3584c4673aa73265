// cc/core's Status as TensorFlow's.
#ifndef TF_BOOSTER_CC_TF_KERNELS_STATUS_H_
#define TF_BOOSTER_CC_TF_KERNELS_STATUS_H_

#include <cstdint>
#include <string>

#include "cc/core/base/status.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

// The same code, and a message that begins with `op`: "TableFind 'user_emb': …". Messages of cc/core begin with
// "Table 'user_emb'", where `op` takes the place of "Table", or with the op itself; others get "<op>: " in front.
// `context`, if not empty, is added in brackets.
tensorflow::Status ToTensorFlow(const Status& status, const std::string& op, const std::string& context = "");

// The same code and message, with nothing added: of what went through cc/core unchanged.
Status FromTensorFlow(const tensorflow::Status& status);
tensorflow::Status AsTensorFlow(const Status& status);

// A status by the number of its code, and its message, whose type and name are others in TensorFlow 2.12 than later.
tensorflow::Status TensorFlowStatus(int64_t code, const std::string& message);
std::string MessageOf(const tensorflow::Status& status);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_STATUS_H_
