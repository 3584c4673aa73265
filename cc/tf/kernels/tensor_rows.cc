#include "cc/tf/kernels/tensor_rows.h"

#include <algorithm>
#include <cstring>

#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/lib/hash/crc32c.h"
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

TfStatus TensorRows::Find(const tensorflow::TensorShape& shape, int64_t bytes_per_value) {
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

TfStatus TensorRows::AddPiece(const std::string& key, int64_t first_row, int64_t rows) {
  BundleEntryProto entry;
  TF_RETURN_IF_ERROR(ReadEntry(reader_, key, &entry));
  if (entry.size() != rows * row_bytes_) {
    return errors::DataLoss("the index gives it ", entry.size(), " bytes instead of ", rows * row_bytes_);
  }
  pieces_.push_back({first_row, rows, entry.shard_id(), entry.offset(), entry.crc32c()});
  return tensorflow::OkStatus();
}

TfStatus TensorRows::Read(int64_t rows, void* out) {
  char* to = static_cast<char*>(out);
  while (rows > 0) {
    if (piece_ == pieces_.size()) return errors::OutOfRange("it has no more rows");
    const TensorPiece& piece = pieces_[piece_];
    if (file_ == nullptr) {
      TF_RETURN_IF_ERROR(tensorflow::Env::Default()->NewRandomAccessFile(
          tensorflow::DataFilename(prefix_, piece.shard, num_shards_), &file_));
    }
    const int64_t done = row_ - piece.first_row, n = std::min(rows, piece.rows - done), bytes = n * row_bytes_;
    tensorflow::StringPiece read;
    TF_RETURN_IF_ERROR(file_->Read(piece.offset + done * row_bytes_, bytes, &read, to));
    if (read.data() != to) std::memcpy(to, read.data(), bytes);
    crc32c_ = tensorflow::crc32c::Extend(crc32c_, to, bytes);
    to += bytes;
    rows -= n;
    row_ += n;
    if (done + n < piece.rows) continue;
    if (tensorflow::crc32c::Unmask(piece.crc32c) != crc32c_) return errors::DataLoss("the checksum does not match");
    GoTo(piece_ + 1);
  }
  return tensorflow::OkStatus();
}

void TensorRows::GoTo(size_t piece) {
  piece_ = piece;
  row_ = piece < pieces_.size() ? pieces_[piece].first_row : -1;
  crc32c_ = 0;
  file_.reset();
}

TensorRows TensorRows::Again() const {
  TensorRows rows(reader_, prefix_, name_);
  rows.row_bytes_ = row_bytes_;
  rows.num_shards_ = num_shards_;
  rows.pieces_ = pieces_;
  rows.GoTo(piece_);
  return rows;
}

}  // namespace tf_booster
