// The rows of a tensor of a V2 checkpoint, some at a time: BundleReader reads a stored slice as a whole.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TENSOR_ROWS_H_
#define TF_BOOSTER_CC_TF_KERNELS_TENSOR_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace tf_booster {

// A run of rows that lie together in one file: a whole tensor, or one slice of it.
struct TensorPiece {
  int64_t first_row = 0;
  int64_t rows = 0;
  int32_t shard = 0;
  int64_t offset = 0;   // Of the first row in the shard's file, in bytes.
  uint32_t crc32c = 0;  // Of all bytes of the piece, masked as the checkpoint stores it.
};

// Reads rows in their order. Errors do not name the tensor.
class TensorRows {
 public:
  TensorRows(tensorflow::BundleReader* reader, std::string prefix, std::string name)
      : reader_(reader), prefix_(std::move(prefix)), name_(std::move(name)) {}

  // Finds the pieces of a numeric tensor of the shape [rows, …]. Unimplemented: it is stored in slices of other
  // dimensions than the first. DataLoss: slices leave rows out or overlap.
  tensorflow::Status Find(const tensorflow::TensorShape& shape, int64_t bytes_per_value);

  const std::string& name() const { return name_; }
  int64_t row_bytes() const { return row_bytes_; }
  const std::vector<TensorPiece>& pieces() const { return pieces_; }
  // Of the next row.
  size_t piece() const { return piece_; }
  int64_t row() const { return row_; }

  // The next `rows` rows. DataLoss, OutOfRange: corrupt or truncated; a piece's checksum is checked at its last row.
  tensorflow::Status Read(int64_t rows, void* out);

  // Goes to the first row of a piece.
  void GoTo(size_t piece);

  // Another reader of the same, at the first row of the present piece.
  TensorRows Again() const;

 private:
  tensorflow::Status AddPiece(const std::string& key, int64_t first_row, int64_t rows);

  tensorflow::BundleReader* const reader_;
  const std::string prefix_;
  const std::string name_;
  int64_t row_bytes_ = 0;
  int32_t num_shards_ = 0;
  std::vector<TensorPiece> pieces_;  // In the order of rows.

  size_t piece_ = 0;
  int64_t row_ = 0;
  uint32_t crc32c_ = 0;  // Of the piece, up to there.
  std::unique_ptr<tensorflow::RandomAccessFile> file_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TENSOR_ROWS_H_
