// cc/core's Status as TensorFlow's.
#ifndef TF_BOOSTER_CC_TF_KERNELS_STATUS_H_
#define TF_BOOSTER_CC_TF_KERNELS_STATUS_H_

#include <string>

#include "cc/core/base/status.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

// `where` goes in front of the message. A switch, since TensorFlow's type of error codes changes between 2.12 and 2.15.
inline tensorflow::Status ToTensorFlow(const Status& status, const std::string& where = "") {
  namespace errors = tensorflow::errors;
  switch (status.code()) {
    case StatusCode::kOk:
      return tensorflow::OkStatus();
    case StatusCode::kInvalidArgument:
      return errors::InvalidArgument(where, status.message());
    case StatusCode::kNotFound:
      return errors::NotFound(where, status.message());
    case StatusCode::kResourceExhausted:
      return errors::ResourceExhausted(where, status.message());
    case StatusCode::kFailedPrecondition:
      return errors::FailedPrecondition(where, status.message());
    case StatusCode::kDataLoss:
      return errors::DataLoss(where, status.message());
    case StatusCode::kInternal:
      break;
  }
  return errors::Internal(where, status.message());
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_STATUS_H_
