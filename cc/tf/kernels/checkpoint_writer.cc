#include "cc/tf/kernels/checkpoint_writer.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "tensorflow/core/lib/core/coding.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/lib/io/table_builder.h"
#include "tensorflow/core/lib/io/table_options.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace tf_booster {
namespace {

namespace crc32c = tensorflow::crc32c;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;

}  // namespace

TfStatus CheckpointWriter::Open() {
  return tensorflow::Env::Default()->NewWritableFile(tensorflow::DataFilename(prefix_, 0, 1), &file_);
}

TfStatus CheckpointWriter::Begin(const std::string& name, tensorflow::DataType dtype,
                                 const tensorflow::TensorShape& shape) {
  TF_RETURN_IF_ERROR(End());
  name_ = name;
  entry_.Clear();
  entry_.set_dtype(dtype);
  shape.AsProto(entry_.mutable_shape());
  entry_.set_offset(size_);
  entry_.set_size(shape.num_elements() * tensorflow::DataTypeSize(dtype));
  crc32c_ = 0;
  row_bytes_ = 0;
  return tensorflow::OkStatus();
}

TfStatus CheckpointWriter::BeginRows(const std::string& name, tensorflow::DataType dtype, int64_t columns) {
  TF_RETURN_IF_ERROR(Begin(name, dtype, columns == 0 ? TensorShape({0}) : TensorShape({0, columns})));
  row_bytes_ = std::max<int64_t>(1, columns) * tensorflow::DataTypeSize(dtype);
  return tensorflow::OkStatus();
}

TfStatus CheckpointWriter::Append(const void* data, int64_t bytes) {
  const char* const chars = static_cast<const char*>(data);
  crc32c_ = crc32c::Extend(crc32c_, chars, bytes);
  size_ += bytes;
  return file_->Append(absl::string_view(chars, bytes));
}

TfStatus CheckpointWriter::AddScalar(const std::string& name, int64_t value) {
  TF_RETURN_IF_ERROR(Begin(name, tensorflow::DT_INT64, {}));
  return Append(&value, sizeof(value));
}

// A string is its length, the checksum of the length as 4 bytes, and its bytes; the tensor's own checksum is of the
// same, but of the length as 4 bytes.
TfStatus CheckpointWriter::AddScalar(const std::string& name, const std::string& value) {
  TF_RETURN_IF_ERROR(Begin(name, tensorflow::DT_STRING, {}));
  const uint32_t length = static_cast<uint32_t>(value.size());
  std::string head;
  tensorflow::core::PutVarint64(&head, length);
  TF_RETURN_IF_ERROR(Append(head.data(), static_cast<int64_t>(head.size())));
  crc32c_ = crc32c::Extend(0, reinterpret_cast<const char*>(&length), sizeof(length));
  const uint32_t of_length = crc32c::Mask(crc32c_);
  TF_RETURN_IF_ERROR(Append(&of_length, sizeof(of_length)));
  TF_RETURN_IF_ERROR(Append(value.data(), static_cast<int64_t>(value.size())));
  entry_.set_size(size_ - entry_.offset());
  return tensorflow::OkStatus();
}

TfStatus CheckpointWriter::End() {
  if (name_.empty()) return tensorflow::OkStatus();
  if (row_bytes_ > 0) {
    const int64_t rows = (size_ - entry_.offset()) / row_bytes_;
    entry_.mutable_shape()->mutable_dim(0)->set_size(rows);
    entry_.set_size(rows * row_bytes_);
  }
  if (size_ - entry_.offset() != entry_.size()) {
    return tensorflow::errors::Internal("of '", name_, "' there are ", size_ - entry_.offset(), " bytes, not ",
                                        entry_.size());
  }
  entry_.set_crc32c(crc32c::Mask(crc32c_));
  entries_[name_] = entry_.SerializeAsString();
  name_.clear();
  return tensorflow::OkStatus();
}

TfStatus CheckpointWriter::Finish() {
  TF_RETURN_IF_ERROR(End());
  TF_RETURN_IF_ERROR(file_->Close());
  tensorflow::BundleHeaderProto header;
  header.set_num_shards(1);
  header.set_endianness(tensorflow::BundleHeaderProto::LITTLE);
  header.mutable_version()->set_producer(tensorflow::kTensorBundleVersion);
  header.mutable_version()->set_min_consumer(tensorflow::kTensorBundleMinConsumer);
  return WriteCheckpointIndex(tensorflow::MetaFilename(prefix_), header, entries_);
}

TfStatus WriteCheckpointIndex(const std::string& path, const tensorflow::BundleHeaderProto& header,
                              const std::map<std::string, std::string>& entries) {
  std::unique_ptr<tensorflow::WritableFile> file;
  TF_RETURN_IF_ERROR(tensorflow::Env::Default()->NewWritableFile(path, &file));
  tensorflow::table::Options options;
  options.compression = tensorflow::table::kNoCompression;  // As TensorFlow's: not every platform's reader has Snappy.
  tensorflow::table::TableBuilder builder(options, file.get());
  builder.Add(tensorflow::kHeaderEntryKey, header.SerializeAsString());
  for (const auto& [name, entry] : entries) builder.Add(name, entry);
  TfStatus status = builder.Finish();
  status.Update(file->Sync());
  status.Update(file->Close());
  return status;
}

}  // namespace tf_booster
