#include "cc/tf/kernels/table_checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::DataType;
using tensorflow::DataTypeString;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;

constexpr int64_t kAny = -1;

// What is read at a time, of all of a table's tensors together.
constexpr int64_t kPieceBytes = int64_t{32} << 20;
constexpr int64_t kLeastRowsOfPiece = 1024;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[",
                      absl::StrJoin(shape, ", ",
                                    [](std::string* out, int64_t size) {
                                      absl::StrAppend(out, size == kAny ? "?" : absl::StrCat(size));
                                    }),
                      "]");
}

}  // namespace

TfStatus ReadKeyPart(tensorflow::OpKernelConstruction* ctx, KeyPart* part) {
  std::string partition;
  TF_RETURN_IF_ERROR(ctx->GetAttr("rank", &part->rank));
  TF_RETURN_IF_ERROR(ctx->GetAttr("size", &part->size));
  TF_RETURN_IF_ERROR(ctx->GetAttr("partition", &partition));
  if (ParsePartition(partition, &part->mode) && part->rank >= 0 && part->rank < part->size) {
    return tensorflow::OkStatus();
  }
  return errors::InvalidArgument(ctx->def().op().substr(sizeof("TfBooster") - 1), ": rank ", part->rank, " of ",
                                 part->size, ", partition '", partition,
                                 "'; wanted a rank below size, and 'hash' or 'mod'");
}

TableCheckpoint::TableCheckpoint(const TableCall& call, std::string prefix, std::string name, const KeyPart& part)
    : call_(call),
      prefix_(std::move(prefix)),
      name_(std::move(name)),
      part_(part),
      reader_(tensorflow::Env::Default(), prefix_) {}

TfStatus TableCheckpoint::Open() {
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
  const int64_t dim = call_.resource().dim();
  TF_RETURN_IF_ERROR(OpenRows("keys", {kAny}, &keys_, &num_rows_));
  TF_RETURN_IF_ERROR(OpenRows("values", {num_rows_, dim}, &values_));
  if (reader_.Contains(FullName("frequencies"))) {
    TF_RETURN_IF_ERROR(OpenRows("frequencies", {num_rows_}, &frequencies_));
  }
  if (reader_.Contains(FullName("last_use_steps"))) {
    TF_RETURN_IF_ERROR(OpenRows("last_use_steps", {num_rows_}, &last_use_steps_));
  }
  TF_RETURN_IF_ERROR(ReadScalar("step", &step_));
  TF_RETURN_IF_ERROR(ReadScalar("seed", &seed_));
  std::optional<tensorflow::tstring> optimizer;
  TF_RETURN_IF_ERROR(ReadScalar("optimizer", &optimizer));
  if (optimizer) optimizer_ = *optimizer;
  const TableConfig& config = call_.resource().config();
  for (const std::string& slot : config.slot_names) {
    if (optimizer_ != config.optimizer) break;
    slots_.emplace_back();
    TF_RETURN_IF_ERROR(OpenRows("slots/" + slot, {num_rows_, dim}, &slots_.back()));
  }
  TF_RETURN_IF_ERROR(OpenIncrement());
  if (!reader_.Contains(FullName("pending_keys"))) return tensorflow::OkStatus();
  TF_RETURN_IF_ERROR(OpenRows("pending_keys", {kAny}, &pending_keys_, &num_pending_));
  return OpenRows("pending_counts", {num_pending_}, &pending_counts_);
}

TfStatus TableCheckpoint::OpenIncrement() {
  std::optional<int64_t> number, since;
  TF_RETURN_IF_ERROR(ReadScalar("increment", &number));
  TF_RETURN_IF_ERROR(ReadScalar("since_step", &since));
  if (!number || !since || !step_) return tensorflow::OkStatus();
  increment_ = {*number, *since, *step_, reader_.Contains(FullName("all_keys")),
                reader_.Contains(FullName("left_keys"))};
  if (!increment_->has_all_keys && !increment_->has_left_keys) return tensorflow::OkStatus();
  return OpenRows(increment_->has_all_keys ? "all_keys" : "left_keys", {kAny}, &increment_keys_, &num_increment_keys_);
}

TfStatus TableCheckpoint::ReadIncrementKeys(std::vector<int64_t>* keys) {
  keys->resize(num_increment_keys_);
  for (int64_t done = 0; done < num_increment_keys_;) {
    TensorRows& rows = increment_keys_->rows;
    const int64_t size = rows.pieces()[rows.piece()].rows;
    TF_RETURN_IF_ERROR(Corrupt(rows.name(), rows.Read(size, keys->data() + done)));
    done += size;
  }
  return tensorflow::OkStatus();
}

template <class T>
TfStatus TableCheckpoint::OpenRows(const std::string& suffix, const std::vector<int64_t>& shape,
                                   std::unique_ptr<Array<T>>* array, int64_t* length) {
  TensorShape found;
  TF_RETURN_IF_ERROR(CheckEntry(suffix, tensorflow::DataTypeToEnum<T>::value, shape, &found));
  if (length != nullptr) *length = found.dim_size(0);
  array->reset(new Array<T>{TensorRows(&reader_, prefix_, FullName(suffix)), {}});
  return Corrupt(FullName(suffix), (*array)->rows.Find(found, sizeof(T)));
}

template <class T>
TfStatus TableCheckpoint::ReadScalar(const std::string& suffix, std::optional<T>* value) {
  if (!reader_.Contains(FullName(suffix))) return tensorflow::OkStatus();
  TensorShape found;
  TF_RETURN_IF_ERROR(CheckEntry(suffix, tensorflow::DataTypeToEnum<T>::value, {}, &found));
  Tensor tensor(tensorflow::DataTypeToEnum<T>::value, found);
  TF_RETURN_IF_ERROR(Corrupt(FullName(suffix), reader_.Lookup(FullName(suffix), &tensor)));
  *value = tensor.scalar<T>()();
  return tensorflow::OkStatus();
}

template <class Visit>
TfStatus TableCheckpoint::ForEachRowArray(Visit visit) {
  const int64_t dim = call_.resource().dim();
  TF_RETURN_IF_ERROR(visit(*keys_, 1));
  TF_RETURN_IF_ERROR(visit(*values_, dim));
  for (const auto& slot : slots_) TF_RETURN_IF_ERROR(visit(*slot, dim));
  if (frequencies_ != nullptr) TF_RETURN_IF_ERROR(visit(*frequencies_, 1));
  return last_use_steps_ == nullptr ? tensorflow::OkStatus() : visit(*last_use_steps_, 1);
}

template <class Visit>
TfStatus TableCheckpoint::ForEachPendingArray(Visit visit) {
  TF_RETURN_IF_ERROR(visit(*pending_keys_, 1));
  return visit(*pending_counts_, 1);
}

ContentsSource TableCheckpoint::Source(uint32_t field) {
  ContentsSource source;
  source.field = field;
  source.rows = num_rows_ / part_.size;
  source.pending = num_pending_ / part_.size;
  if (step_) source.step = *step_;
  if (seed_) source.seed = static_cast<uint64_t>(*seed_);
  source.next = [this](ContentsIn* piece) {
    status_ = Next(piece);
    return status_.ok() ? Status() : Status(StatusCode::kInternal, "the checkpoint cannot be read");
  };
  return source;
}

TfStatus TableCheckpoint::Next(ContentsIn* piece) {
  const int64_t width = static_cast<int64_t>(1 + slots_.size()) * call_.resource().dim() * 4 + 24;
  const int64_t most = std::max(kLeastRowsOfPiece, kPieceBytes / width);
  const auto rows = [this](auto visit) { return ForEachRowArray(visit); };
  TF_RETURN_IF_ERROR(ReadOwn(keys_.get(), most, rows, &piece->rows));
  if (piece->rows > 0) {
    piece->keys = keys_->values.data();
    piece->values = values_->values.data();
    for (const auto& slot : slots_) piece->slots.push_back(slot->values.data());
    if (frequencies_ != nullptr) piece->frequencies = frequencies_->values.data();
    if (last_use_steps_ != nullptr) piece->last_steps = last_use_steps_->values.data();
    return tensorflow::OkStatus();
  }
  // Fields are read one after another: what one needed is given back before the next one begins.
  const auto give_back = [](auto& array, int64_t) {
    std::decay_t<decltype(array.values)>().swap(array.values);
    return tensorflow::OkStatus();
  };
  TF_RETURN_IF_ERROR(ForEachRowArray(give_back));
  if (pending_keys_ == nullptr) return tensorflow::OkStatus();
  const auto pending = [this](auto visit) { return ForEachPendingArray(visit); };
  TF_RETURN_IF_ERROR(ReadOwn(pending_keys_.get(), kPieceBytes / 16, pending, &piece->pending));
  piece->pending_keys = pending_keys_->values.data();
  piece->pending_counts = pending_counts_->values.data();
  return piece->pending > 0 ? tensorflow::OkStatus() : ForEachPendingArray(give_back);
}

template <class ForEach>
TfStatus TableCheckpoint::ReadOwn(Array<int64_t>* keys, int64_t most, ForEach for_each, int64_t* size) {
  *size = 0;
  while (*size == 0 && keys->rows.piece() < keys->rows.pieces().size()) {
    const size_t at = keys->rows.piece();
    const auto alike = [&](const TensorRows& rows) {
      return rows.piece() == at && at < rows.pieces().size() && rows.row() == keys->rows.row() &&
             rows.pieces()[at].first_row == keys->rows.row() && rows.pieces()[at].rows == keys->rows.pieces()[at].rows;
    };
    bool skip = part_.size > 1;
    TF_RETURN_IF_ERROR(for_each([&](auto& array, int64_t) {
      skip = skip && alike(array.rows);
      return tensorflow::OkStatus();
    }));
    if (skip) {
      bool has = false;
      TF_RETURN_IF_ERROR(HasOwn(*keys, most, &has));
      skip = !has;
    }
    if (skip) {
      TF_RETURN_IF_ERROR(for_each([&](auto& array, int64_t) {
        array.rows.GoTo(at + 1);
        return tensorflow::OkStatus();
      }));
      continue;
    }
    // To the end of the piece at most, so that the next one may be skipped.
    const TensorPiece& piece = keys->rows.pieces()[at];
    const int64_t n = std::min(most, piece.first_row + piece.rows - keys->rows.row());
    TF_RETURN_IF_ERROR(for_each([&](auto& array, int64_t columns) {
      array.values.resize(n * columns);
      return Corrupt(array.rows.name(), array.rows.Read(n, array.values.data()));
    }));
    std::vector<int64_t> own;
    for (int64_t i = 0; i < n && part_.size > 1; ++i) {
      if (part_.has(keys->values[i])) own.push_back(i);
    }
    *size = part_.size > 1 ? static_cast<int64_t>(own.size()) : n;
    if (*size == n) continue;
    TF_RETURN_IF_ERROR(for_each([&](auto& array, int64_t columns) {
      for (int64_t i = 0; i < *size; ++i) {
        if (own[i] == i) continue;
        std::copy_n(array.values.begin() + own[i] * columns, columns, array.values.begin() + i * columns);
      }
      return tensorflow::OkStatus();
    }));
  }
  return tensorflow::OkStatus();
}

TfStatus TableCheckpoint::HasOwn(const Array<int64_t>& keys, int64_t most, bool* has) {
  TensorRows rows = keys.rows.Again();
  const int64_t end = rows.row() + rows.pieces()[rows.piece()].rows;
  std::vector<int64_t> some;
  *has = false;
  for (int64_t row = rows.row(); row < end && !*has; row += static_cast<int64_t>(some.size())) {
    some.resize(std::min(most, end - row));
    TF_RETURN_IF_ERROR(Corrupt(rows.name(), rows.Read(static_cast<int64_t>(some.size()), some.data())));
    *has = std::any_of(some.begin(), some.end(), [&](int64_t key) { return part_.has(key); });
  }
  return tensorflow::OkStatus();
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

}  // namespace tf_booster
