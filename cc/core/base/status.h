// The result of an operation of cc/core: a code and, for errors, a message that a user can act on.
#ifndef TF_BOOSTER_CC_CORE_BASE_STATUS_H_
#define TF_BOOSTER_CC_CORE_BASE_STATUS_H_

#include <string>
#include <utility>

namespace tf_booster {

// The values are those of absl::StatusCode and tensorflow::error::Code, so that cc/tf converts by a cast.
enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kInternal = 13,
  kDataLoss = 15,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

#define TFB_RETURN_IF_ERROR(expr)              \
  do {                                         \
    ::tf_booster::Status tfb_status_ = (expr); \
    if (!tfb_status_.ok()) return tfb_status_; \
  } while (0)

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_STATUS_H_
