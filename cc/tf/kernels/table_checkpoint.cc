#include "cc/tf/kernels/table_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/tf/kernels/tensor_pieces.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::DataType;
using tensorflow::DataTypeString;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT64;
using tensorflow::DT_STRING;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;

constexpr int64_t kAny = -1;

bool IsPresent(const Tensor& tensor) { return tensor.dtype() != DT_FLOAT; }

const int64_t* Int64s(const Tensor& tensor) { return IsPresent(tensor) ? tensor.flat<int64_t>().data() : nullptr; }

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[",
                      absl::StrJoin(shape, ", ",
                                    [](std::string* out, int64_t size) {
                                      absl::StrAppend(out, size == kAny ? "?" : absl::StrCat(size));
                                    }),
                      "]");
}

}  // namespace

TableCheckpoint::TableCheckpoint(tensorflow::OpKernelContext* ctx, const TableCall& call, std::string prefix,
                                 std::string name, const KeyPart& part)
    : ctx_(ctx),
      call_(call),
      prefix_(std::move(prefix)),
      name_(std::move(name)),
      part_(part),
      reader_(tensorflow::Env::Default(), prefix_) {}

TfStatus TableCheckpoint::Read() {
  const TfStatus& opened = reader_.status();
  if (errors::IsNotFound(opened)) {
    return errors::NotFound(call_.Where(), "there is no checkpoint '", prefix_,
                            "' (the path without '.index'); check the path: ", opened.ToString());
  }
  if (!opened.ok()) {
    return errors::DataLoss(call_.Where(), "the index of checkpoint '", prefix_,
                            "' cannot be read; restore an earlier checkpoint: ", opened.ToString());
  }
  if (!reader_.Contains(FullName("keys"))) {
    return errors::NotFound(call_.Where(), "checkpoint '", prefix_, "' has no tensor '", FullName("keys"),
                            "', so it was saved without this table. It has ", TablesInCheckpoint(),
                            "; check the table's name, or leave the table out of what is restored");
  }
  TF_RETURN_IF_ERROR(ReadRows());
  TF_RETURN_IF_ERROR(ReadSlots());
  return ReadPending();
}

TfStatus TableCheckpoint::ReadRows() {
  TF_RETURN_IF_ERROR(ReadKeys("keys", &admitted_, &keys_));
  const int64_t rows = admitted_.total;
  TF_RETURN_IF_ERROR(ReadTensor("values", DT_FLOAT, {rows, call_.resource().dim()}, &admitted_, &values_));
  TF_RETURN_IF_ERROR(ReadOptional("frequencies", DT_INT64, {rows}, &admitted_, &frequencies_));
  TF_RETURN_IF_ERROR(ReadOptional("last_use_steps", DT_INT64, {rows}, &admitted_, &last_use_steps_));
  TF_RETURN_IF_ERROR(ReadOptional("step", DT_INT64, {}, nullptr, &step_));
  return ReadOptional("seed", DT_INT64, {}, nullptr, &seed_);
}

TfStatus TableCheckpoint::ReadSlots() {
  Tensor optimizer;
  TF_RETURN_IF_ERROR(ReadOptional("optimizer", DT_STRING, {}, nullptr, &optimizer));
  if (IsPresent(optimizer)) optimizer_ = optimizer.scalar<tensorflow::tstring>()();
  const TableConfig& config = call_.resource().config();
  if (optimizer_ != config.optimizer) return tensorflow::OkStatus();
  for (const std::string& slot : config.slot_names) {
    slots_.emplace_back();
    TF_RETURN_IF_ERROR(
        ReadTensor("slots/" + slot, DT_FLOAT, {admitted_.total, call_.resource().dim()}, &admitted_, &slots_.back()));
  }
  return tensorflow::OkStatus();
}

TfStatus TableCheckpoint::ReadPending() {
  if (!reader_.Contains(FullName("pending_keys"))) return tensorflow::OkStatus();
  TF_RETURN_IF_ERROR(ReadKeys("pending_keys", &pending_, &pending_keys_));
  return ReadTensor("pending_counts", DT_INT64, {pending_.total}, &pending_, &pending_counts_);
}

TfStatus TableCheckpoint::ReadOptional(const std::string& suffix, DataType dtype, const std::vector<int64_t>& shape,
                                       const Keys* keys, Tensor* tensor) {
  if (!reader_.Contains(FullName(suffix))) return tensorflow::OkStatus();
  return ReadTensor(suffix, dtype, shape, keys, tensor);
}

// The op may be one of a GPU, which would give the card's memory.
TfStatus TableCheckpoint::AllocateOnHost(DataType dtype, const TensorShape& shape, Tensor* tensor) {
  tensorflow::AllocatorAttributes attributes;
  attributes.set_on_host(true);
  return ctx_->allocate_temp(dtype, shape, tensor, attributes);
}

TfStatus TableCheckpoint::ReadTensor(const std::string& suffix, DataType dtype, const std::vector<int64_t>& shape,
                                     const Keys* keys, Tensor* tensor) {
  const std::string full_name = FullName(suffix);
  TensorShape found;
  TF_RETURN_IF_ERROR(CheckEntry(suffix, dtype, shape, &found));
  if (keys != nullptr && part_.size > 1) {
    TensorShape own = found;
    own.set_dim(0, keys->rows.size());
    TF_RETURN_IF_ERROR(AllocateOnHost(dtype, own, tensor));
    return Corrupt(full_name, ReadRowsOfPart(full_name, found, *keys, tensor));
  }
  TF_RETURN_IF_ERROR(AllocateOnHost(dtype, found, tensor));
  return Corrupt(full_name, reader_.Lookup(full_name, tensor));
}

TfStatus TableCheckpoint::ReadKeys(const std::string& suffix, Keys* keys, Tensor* tensor) {
  TensorShape found;
  TF_RETURN_IF_ERROR(CheckEntry(suffix, DT_INT64, {kAny}, &found));
  keys->total = found.dim_size(0);
  if (part_.size == 1) return ReadTensor(suffix, DT_INT64, {kAny}, nullptr, tensor);
  return Corrupt(FullName(suffix), ReadKeysOfPart(FullName(suffix), found, keys, tensor));
}

TfStatus TableCheckpoint::ReadKeysOfPart(const std::string& full_name, const TensorShape& shape, Keys* keys,
                                         Tensor* tensor) {
  TensorPieces pieces(&reader_, prefix_, full_name);
  TF_RETURN_IF_ERROR(pieces.Find(shape, sizeof(int64_t)));
  std::vector<int64_t> own;
  TF_RETURN_IF_ERROR(pieces.Read([](const TensorPiece&) { return true; },
                                 [&](int64_t first, int64_t rows, const char* data) {
                                   for (int64_t i = 0; i < rows; ++i) {
                                     int64_t key;
                                     std::memcpy(&key, data + i * sizeof(key), sizeof(key));
                                     if (!part_.has(key)) continue;
                                     own.push_back(key);
                                     keys->rows.push_back(first + i);
                                   }
                                 }));
  TF_RETURN_IF_ERROR(AllocateOnHost(DT_INT64, {static_cast<int64_t>(own.size())}, tensor));
  std::copy(own.begin(), own.end(), tensor->flat<int64_t>().data());
  return tensorflow::OkStatus();
}

TfStatus TableCheckpoint::ReadRowsOfPart(const std::string& full_name, const TensorShape& shape, const Keys& keys,
                                         Tensor* tensor) {
  const int64_t value_bytes = tensorflow::DataTypeSize(tensor->dtype());
  const int64_t row_bytes = value_bytes * (shape.dims() == 2 ? shape.dim_size(1) : 1);
  TensorPieces pieces(&reader_, prefix_, full_name);
  TF_RETURN_IF_ERROR(pieces.Find(shape, value_bytes));
  char* out = const_cast<char*>(tensor->tensor_data().data());
  const auto first_from = [&](int64_t row) { return std::lower_bound(keys.rows.begin(), keys.rows.end(), row); };
  return pieces.Read(
      [&](const TensorPiece& piece) { return first_from(piece.first_row) != first_from(piece.first_row + piece.rows); },
      [&](int64_t first, int64_t rows, const char* data) {
        for (auto row = first_from(first); row != keys.rows.end() && *row < first + rows; ++row) {
          std::memcpy(out + (row - keys.rows.begin()) * row_bytes, data + (*row - first) * row_bytes, row_bytes);
        }
      });
}

TfStatus TableCheckpoint::CheckEntry(const std::string& suffix, DataType dtype, const std::vector<int64_t>& shape,
                                     TensorShape* found) {
  const std::string full_name = FullName(suffix);
  if (!reader_.Contains(full_name)) {
    return errors::NotFound(call_.Where(), "checkpoint '", prefix_, "' has '", FullName("keys"), "' but no '",
                            full_name, "'; it is incomplete: restore an earlier checkpoint");
  }
  DataType found_dtype;
  TF_RETURN_IF_ERROR(Corrupt(full_name, reader_.LookupDtypeAndShape(full_name, &found_dtype, found)));
  if (found_dtype != dtype) {
    return errors::InvalidArgument(call_.Where(), "dtype of '", full_name, "' in checkpoint '", prefix_, "' is ",
                                   DataTypeString(found_dtype), ", but must be ", DataTypeString(dtype),
                                   "; check that the name is a table's and the table's dtype");
  }
  return CheckShape(full_name, *found, shape);
}

TfStatus TableCheckpoint::Corrupt(const std::string& full_name, const TfStatus& status) const {
  if (status.ok() || errors::IsResourceExhausted(status)) return status;
  // A data file that ends early is OutOfRange to the reader; to Estimator that would be the end of the input.
  return errors::DataLoss(call_.Where(), "'", full_name, "' of checkpoint '", prefix_,
                          "' is corrupt or truncated; restore an earlier checkpoint: ", status.ToString());
}

TfStatus TableCheckpoint::CheckShape(const std::string& full_name, const TensorShape& found,
                                     const std::vector<int64_t>& wanted) const {
  bool equal = found.dims() == static_cast<int>(wanted.size());
  if (equal && wanted.size() == 2 && found.dim_size(1) != wanted[1]) {
    return errors::InvalidArgument(call_.Where(), "dim is ", wanted[1], " but '", full_name, "' in checkpoint '",
                                   prefix_, "' has ", found.dim_size(1),
                                   " columns; check embedding_dim against the checkpoint");
  }
  for (size_t i = 0; equal && i < wanted.size(); ++i) equal = wanted[i] == kAny || wanted[i] == found.dim_size(i);
  if (equal) return tensorflow::OkStatus();
  return errors::InvalidArgument(call_.Where(), "'", full_name, "' in checkpoint '", prefix_, "' has the shape ",
                                 found.DebugString(), ", but must be ", ShapeText(wanted), " to match '",
                                 FullName("keys"), "'; check that the name is a table's");
}

std::string TableCheckpoint::TablesInCheckpoint() {
  std::vector<std::string> tables;
  for (reader_.Seek(""); reader_.Valid(); reader_.Next()) {
    const std::string name(reader_.key());
    if (absl::EndsWith(name, "/keys")) tables.push_back(absl::StrCat("'", name.substr(0, name.size() - 5), "'"));
  }
  const size_t total = tables.size();
  if (total == 0) return "no tables";
  tables.resize(std::min<size_t>(total, 10));
  return absl::StrCat("the tables ", absl::StrJoin(tables, ", "), total > tables.size() ? " and others" : "");
}

ContentsIn TableCheckpoint::Contents() const {
  ContentsIn contents;
  contents.rows = keys_.NumElements();
  contents.keys = keys_.flat<int64_t>().data();
  contents.values = values_.flat<float>().data();
  for (const Tensor& slot : slots_) contents.slots.push_back(slot.flat<float>().data());
  contents.frequencies = Int64s(frequencies_);
  contents.last_steps = Int64s(last_use_steps_);
  contents.pending = IsPresent(pending_keys_) ? pending_keys_.NumElements() : 0;
  contents.pending_keys = Int64s(pending_keys_);
  contents.pending_counts = Int64s(pending_counts_);
  if (IsPresent(step_)) contents.step = step_.scalar<int64_t>()();
  if (IsPresent(seed_)) contents.seed = static_cast<uint64_t>(seed_.scalar<int64_t>()());
  return contents;
}

}  // namespace tf_booster
