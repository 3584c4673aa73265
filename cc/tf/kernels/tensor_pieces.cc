#include "cc/tf/kernels/tensor_pieces.h"

#include <algorithm>
#include <memory>

#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"

namespace tf_booster {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::BundleEntryProto;
using tensorflow::TensorSlice;
using TfStatus = tensorflow::Status;

constexpr int64_t kBlockBytes = int64_t{4} << 20;

template <class Proto>
TfStatus ReadEntry(tensorflow::BundleReader* reader, const std::string& key, Proto* entry) {
  reader->Seek(key);
  if (!reader->Valid() || reader->key() != key) return errors::DataLoss("the index has no entry '", key, "'");
  const absl::string_view value = reader->value();
  if (!entry->ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return errors::DataLoss("the index entry '", key, "' cannot be parsed");
  }
  return tensorflow::OkStatus();
}

// The rows of `slice`, if it is whole in all other dimensions than the first.
bool IsRun(const TensorSlice& slice, const tensorflow::TensorShape& shape, int64_t* first_row, int64_t* rows) {
  for (int d = 1; d < slice.dims(); ++d) {
    if (!slice.IsFullAt(d) && slice.length(d) != shape.dim_size(d)) return false;
  }
  *first_row = slice.IsFullAt(0) ? 0 : slice.start(0);
  *rows = slice.IsFullAt(0) ? shape.dim_size(0) : slice.length(0);
  return true;
}

}  // namespace

TfStatus TensorPieces::Find(const tensorflow::TensorShape& shape, int64_t bytes_per_value) {
  const int64_t total = shape.dim_size(0);
  row_bytes_ = bytes_per_value;
  for (int d = 1; d < shape.dims(); ++d) row_bytes_ *= shape.dim_size(d);
  tensorflow::BundleHeaderProto header;
  TF_RETURN_IF_ERROR(ReadEntry(reader_, tensorflow::kHeaderEntryKey, &header));
  num_shards_ = header.num_shards();
  BundleEntryProto whole;
  TF_RETURN_IF_ERROR(ReadEntry(reader_, name_, &whole));
  if (total == 0) return tensorflow::OkStatus();
  if (whole.slices().empty()) return AddPiece(name_, 0, total);
  for (const tensorflow::TensorSliceProto& proto : whole.slices()) {
    const TensorSlice slice(proto);
    int64_t first_row, rows;
    if (!IsRun(slice, shape, &first_row, &rows)) {
      return errors::Unimplemented("it is stored in slices of other dimensions than the first");
    }
    TF_RETURN_IF_ERROR(AddPiece(tensorflow::checkpoint::EncodeTensorNameSlice(name_, slice), first_row, rows));
  }
  std::sort(pieces_.begin(), pieces_.end(),
            [](const TensorPiece& a, const TensorPiece& b) { return a.first_row < b.first_row; });
  int64_t next = 0;
  for (const TensorPiece& piece : pieces_) {
    if (piece.first_row != next) return errors::DataLoss("its slices leave rows out or overlap at row ", next);
    next += piece.rows;
  }
  if (next != total) return errors::DataLoss("its slices have ", next, " rows of ", total);
  return tensorflow::OkStatus();
}

TfStatus TensorPieces::AddPiece(const std::string& key, int64_t first_row, int64_t rows) {
  BundleEntryProto entry;
  TF_RETURN_IF_ERROR(ReadEntry(reader_, key, &entry));
  if (entry.size() != rows * row_bytes_) {
    return errors::DataLoss("the index gives it ", entry.size(), " bytes instead of ", rows * row_bytes_);
  }
  pieces_.push_back({first_row, rows, entry.shard_id(), entry.offset(), entry.crc32c()});
  return tensorflow::OkStatus();
}

TfStatus TensorPieces::Read(WantedFn wanted, BlockFn block) const {
  const int64_t block_rows = std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, row_bytes_));
  std::string buffer;
  for (const TensorPiece& piece : pieces_) {
    if (!wanted(piece)) continue;
    std::unique_ptr<tensorflow::RandomAccessFile> file;
    TF_RETURN_IF_ERROR(tensorflow::Env::Default()->NewRandomAccessFile(
        tensorflow::DataFilename(prefix_, piece.shard, num_shards_), &file));
    uint32_t crc = 0;
    for (int64_t done = 0; done < piece.rows;) {
      const int64_t rows = std::min(block_rows, piece.rows - done);
      buffer.resize(rows * row_bytes_);
      tensorflow::StringPiece read;
      TF_RETURN_IF_ERROR(file->Read(piece.offset + done * row_bytes_, buffer.size(), &read, &buffer[0]));
      crc = tensorflow::crc32c::Extend(crc, read.data(), read.size());
      block(piece.first_row + done, rows, read.data());
      done += rows;
    }
    if (tensorflow::crc32c::Unmask(piece.crc32c) != crc) return errors::DataLoss("the checksum does not match");
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
