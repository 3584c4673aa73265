// Writes a V2 checkpoint of one data file, a tensor behind the other and each a piece at a time: BundleWriter wants a
// whole tensor in memory.
#ifndef TF_BOOSTER_CC_TF_KERNELS_CHECKPOINT_WRITER_H_
#define TF_BOOSTER_CC_TF_KERNELS_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace tf_booster {

class CheckpointWriter {
 public:
  // `prefix`: the checkpoint's path without ".index".
  explicit CheckpointWriter(std::string prefix) : prefix_(std::move(prefix)) {}

  tensorflow::Status Open();

  // Ends the tensor before, and begins one of a numeric dtype, whose bytes follow, in row-major order. Internal: of the
  // one before there were too many or too few.
  tensorflow::Status Begin(const std::string& name, tensorflow::DataType dtype, const tensorflow::TensorShape& shape);
  // The same of [rows, columns], or of a vector where `columns` is 0, with as many rows as will be appended.
  tensorflow::Status BeginRows(const std::string& name, tensorflow::DataType dtype, int64_t columns);
  tensorflow::Status Append(const void* data, int64_t bytes);

  tensorflow::Status AddScalar(const std::string& name, int64_t value);
  tensorflow::Status AddScalar(const std::string& name, const std::string& value);

  // Writes the index. Without it nobody finds what was written.
  tensorflow::Status Finish();

 private:
  tensorflow::Status End();

  const std::string prefix_;
  std::unique_ptr<tensorflow::WritableFile> file_;
  int64_t size_ = 0;
  std::map<std::string, std::string> entries_;  // Serialized, by name.
  std::string name_;                            // Of the tensor that was begun; empty: none.
  tensorflow::BundleEntryProto entry_;
  int64_t row_bytes_ = 0;  // Of a tensor by BeginRows.
  uint32_t crc32c_ = 0;
};

// Writes the index file of a checkpoint: its header, and entries by name, serialized.
tensorflow::Status WriteCheckpointIndex(const std::string& path, const tensorflow::BundleHeaderProto& header,
                                        const std::map<std::string, std::string>& entries);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_CHECKPOINT_WRITER_H_
