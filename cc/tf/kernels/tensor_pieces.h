// Where the rows of a tensor lie in a V2 checkpoint's data files, for reading a large one a block at a time:
// BundleReader reads a stored slice as a whole.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TENSOR_PIECES_H_
#define TF_BOOSTER_CC_TF_KERNELS_TENSOR_PIECES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "tensorflow/core/framework/tensor_shape.h"
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

class TensorPieces {
 public:
  // `row`: number of the first row of a block; `data`: `rows` rows of it, valid during the call.
  using BlockFn = FunctionRef<void(int64_t row, int64_t rows, const char* data)>;
  using WantedFn = FunctionRef<bool(const TensorPiece&)>;

  TensorPieces(tensorflow::BundleReader* reader, std::string prefix, std::string name)
      : reader_(reader), prefix_(std::move(prefix)), name_(std::move(name)) {}

  // Finds the pieces of a numeric tensor of the shape [rows, …], in the order of rows. Unimplemented: it is stored in
  // slices of other dimensions than the first. DataLoss: slices leave rows out or overlap.
  tensorflow::Status Find(const tensorflow::TensorShape& shape, int64_t bytes_per_value);

  // Calls `block` for all rows of the pieces that `wanted` says yes to, at most 4 MB at a time and in order; checks
  // each piece's checksum after its last block. DataLoss, OutOfRange: corrupt or truncated.
  tensorflow::Status Read(WantedFn wanted, BlockFn block) const;

 private:
  tensorflow::Status AddPiece(const std::string& key, int64_t first_row, int64_t rows);

  tensorflow::BundleReader* const reader_;
  const std::string prefix_;
  const std::string name_;
  int64_t row_bytes_ = 0;
  int32_t num_shards_ = 0;
  std::vector<TensorPiece> pieces_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TENSOR_PIECES_H_
