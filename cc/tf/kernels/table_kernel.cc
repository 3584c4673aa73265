#include "cc/tf/kernels/table_kernel.h"

#include <algorithm>

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

TfStatus TableCall::Open(int input) { return LookupResource(ctx_, HandleFromInput(ctx_, input), &resource_); }

TfStatus TableCall::OpenField() {
  TF_RETURN_IF_ERROR(Open());
  const size_t fields = resource_->config().options.fields.size();
  if (resource_->field() < 0 && fields > 1) {
    return errors::InvalidArgument(Where(), "the handle is of a fused table of ", fields,
                                   " tables, but the op is about one; give it the handle that TableField makes");
  }
  field_ = std::max<int64_t>(resource_->field(), 0);
  return tensorflow::OkStatus();
}

std::string TableCall::Where() const {
  const std::string& name = field_ < 0 ? resource_->name() : resource_->config().options.fields[field_].name;
  return absl::StrCat(ShortOpName(ctx_->op_kernel()), " '", name, "': ");
}

TfStatus TableCall::Convert(const Status& status, const std::string& context) const {
  if (status.ok()) return tensorflow::OkStatus();
  const bool names_all = field_ < 0 || resource_->config().options.fields.size() == 1;
  std::string where = context;
  if (!names_all) {
    const std::string& name = resource_->config().options.fields[field_].name;
    absl::StrAppend(&where, where.empty() ? "" : ", ", "table '", name, "'");
  }
  return ToTensorFlow(status, ShortOpName(ctx_->op_kernel()), where);
}

TfStatus TableCall::CheckOwned() const {
  if (!resource_->borrowed_checkpoint()) return tensorflow::OkStatus();
  return errors::FailedPrecondition(Where(), "the table is that of the training which waits for this evaluation, and ",
                                    "can only be read here; change it in the training");
}

TfStatus TableCall::CheckReadable() const {
  if (resource_->increments().may_be_read()) return tensorflow::OkStatus();
  return errors::FailedPrecondition(
      Where(), "the table has no rows of a checkpoint yet, where the graph is one for ",
      "serving; run its restore op first, as tf.saved_model.load does, and serve the ",
      "SavedModel: a frozen graph (convert_variables_to_constants) has no rows of tables");
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

TfStatus ReadFields(tensorflow::OpKernelConstruction* ctx, const char* attr, std::vector<uint32_t>* fields) {
  std::vector<int64_t> numbers;
  TF_RETURN_IF_ERROR(ctx->GetAttr(attr, &numbers));
  for (const int64_t number : numbers) {
    if (number < 0 || number > INT32_MAX) {
      return errors::InvalidArgument(ctx->def().op(), ": ", attr, " has the entry ", number,
                                     ", but fields are numbers from 0 on");
    }
    fields->push_back(static_cast<uint32_t>(number));
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
