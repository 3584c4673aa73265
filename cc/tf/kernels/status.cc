#include "cc/tf/kernels/status.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/public/version.h"

namespace tf_booster {
namespace {

std::string Message(const std::string& message, const std::string& op, const std::string& context) {
  const std::string end = context.empty() ? "" : absl::StrCat(" (", context, ")");
  if (absl::StartsWith(message, "Table '")) return absl::StrCat(op, message.substr(5), end);
  if (absl::StartsWith(message, op)) return absl::StrCat(message, end);
  return absl::StrCat(op, ": ", message, end);
}

}  // namespace

tensorflow::Status ToTensorFlow(const Status& status, const std::string& op, const std::string& context) {
  namespace errors = tensorflow::errors;
  if (status.ok()) return tensorflow::OkStatus();
  const std::string message = Message(status.message(), op, context);
  // A switch, since TensorFlow's type of error codes changes between 2.12 and 2.15.
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return errors::InvalidArgument(message);
    case StatusCode::kNotFound:
      return errors::NotFound(message);
    case StatusCode::kResourceExhausted:
      return errors::ResourceExhausted(message);
    case StatusCode::kFailedPrecondition:
      return errors::FailedPrecondition(message);
    case StatusCode::kDataLoss:
      return errors::DataLoss(message);
    case StatusCode::kOk:
    case StatusCode::kInternal:
      break;
  }
  return errors::Internal(message);
}

Status FromTensorFlow(const tensorflow::Status& status) {
  if (status.ok()) return Status();
  return {static_cast<StatusCode>(status.code()), MessageOf(status)};
}

tensorflow::Status AsTensorFlow(const Status& status) {
  if (status.ok()) return tensorflow::OkStatus();
  return TensorFlowStatus(static_cast<int64_t>(status.code()), status.message());
}

tensorflow::Status TensorFlowStatus(int64_t code, const std::string& message) {
  if (code == 0) return tensorflow::OkStatus();
#if TF_MINOR_VERSION < 13
  return tensorflow::Status(static_cast<tensorflow::error::Code>(code), message);
#else
  return tensorflow::Status(static_cast<absl::StatusCode>(code), message);
#endif
}

std::string MessageOf(const tensorflow::Status& status) {
#if TF_MINOR_VERSION < 13
  return status.error_message();
#else
  return std::string(status.message());
#endif
}

}  // namespace tf_booster
