#include "cc/tf/kernels/table_kernel.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

namespace errors = tensorflow::errors;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using TfStatus = tensorflow::Status;

std::string ShortOpName(const tensorflow::OpKernel& kernel) {
  return std::string(absl::StripPrefix(kernel.type_string(), "TfBooster"));
}

TfStatus TableCall::Open() { return LookupResource(ctx_, HandleFromInput(ctx_, 0), &resource_); }

std::string TableCall::Where() const {
  return absl::StrCat(ShortOpName(ctx_->op_kernel()), " '", resource_->name(), "': ");
}

TfStatus TableCall::Convert(const Status& status, const std::string& context) const {
  if (status.ok()) return tensorflow::OkStatus();
  return ToTensorFlow(status, ShortOpName(ctx_->op_kernel()), context);
}

TfStatus TableCall::CheckDim(int64_t dim) const {
  if (dim == resource_->dim()) return tensorflow::OkStatus();
  return errors::InvalidArgument(Where(), "the table's dim is ", resource_->dim(), ", but the op's is ", dim,
                                 "; give both the same embedding_dim");
}

TfStatus TableCall::CheckVector(const Tensor& tensor, const char* name, int64_t size, const char* like) const {
  if (!TensorShapeUtils::IsVector(tensor.shape())) {
    return errors::InvalidArgument(Where(), name, " has the shape ", tensor.shape().DebugString(),
                                   ", but must be a vector; reshape it to [-1]");
  }
  if (size >= 0 && tensor.NumElements() != size) {
    return errors::InvalidArgument(Where(), name, " has ", tensor.NumElements(), " entries, but ", like, " has ", size,
                                   "; both must have the same");
  }
  return tensorflow::OkStatus();
}

TfStatus TableCall::CheckRows(const Tensor& tensor, const char* name, int64_t rows, const char* like) const {
  if (!TensorShapeUtils::IsMatrix(tensor.shape())) {
    return errors::InvalidArgument(Where(), name, " has the shape ", tensor.shape().DebugString(), ", but must be [",
                                   rows, ", ", resource_->dim(), "]; reshape it");
  }
  if (tensor.dim_size(1) != resource_->dim()) {
    return errors::InvalidArgument(Where(), "dim is ", resource_->dim(), " but ", name, " has ", tensor.dim_size(1),
                                   " columns; check embedding_dim");
  }
  if (tensor.dim_size(0) != rows) {
    return errors::InvalidArgument(Where(), name, " has ", tensor.dim_size(0), " rows, but ", like, " has ", rows,
                                   " entries; give one row for each");
  }
  return tensorflow::OkStatus();
}

TfStatus TableCall::CheckScalar(const Tensor& tensor, const char* name) const {
  if (TensorShapeUtils::IsScalar(tensor.shape())) return tensorflow::OkStatus();
  return errors::InvalidArgument(Where(), name, " has the shape ", tensor.shape().DebugString(),
                                 ", but must be a scalar; reshape it to []");
}

}  // namespace tf_booster
