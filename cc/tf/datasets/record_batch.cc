#include "cc/tf/datasets/record_batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/tf/kernels/status.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OkStatus;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;

namespace {

constexpr char kEnded[] = "ended";
constexpr char kNext[] = "next";
constexpr char kNumAhead[] = "num_ahead";
constexpr char kRecords[] = "records";
constexpr char kCode[] = "code";
constexpr char kMessage[] = "message";
constexpr int64_t kMaxReserve = 1 << 16;  // batch_size may stand for "all records".

}  // namespace

void RecordBatcher::Add(Record record, RecordBatch* batch) const {
  batch->records.push_back({record.data, record.size});
  if (record.owned != nullptr) {
    batch->owned.push_back(std::move(record.owned));
  } else if ((*record.block)->held_by_batch != attempt_) {
    (*record.block)->held_by_batch = attempt_;
    batch->blocks.push_back(*record.block);
  }
}

void RecordBatcher::Next(IteratorContext* ctx, RecordBatch* batch, bool* end) {
  *end = false;
  if (!restored_.empty()) {
    *batch = std::move(restored_.front());
    restored_.pop_front();
    return;
  }
  do {
    Gather(ctx, batch, end);
    if (*end || !batch->status.ok()) return;
  } while (next_++ % options_.num_shards != options_.shard);
}

void RecordBatcher::Gather(IteratorContext* ctx, RecordBatch* batch, bool* end) {
  ++attempt_;
  *batch = RecordBatch();
  batch->records.reserve(std::min(options_.batch_size, kMaxReserve));
  TfStatus failed;
  for (int64_t taken = 0; !ended_ && taken < options_.batch_size; ++taken) {
    Record record;
    wanted_.store(options_.batch_size - taken, std::memory_order_relaxed);
    TfStatus status = stream_->Next(ctx, &record, &ended_);
    if (!status.ok()) {
      ended_ = false;
      if (failed.ok()) failed = std::move(status);
      if (!options_.errors_count) break;
    } else if (!ended_) {
      Add(std::move(record), batch);
    }
  }
  if (!failed.ok()) {
    *batch = RecordBatch();
    batch->status = std::move(failed);
    return;
  }
  const int64_t size = batch->records.size();
  *end = size == 0 || (options_.drop_remainder && size < options_.batch_size);
  if (*end) *batch = RecordBatch();
}

TfStatus RecordBatcher::Save(SerializationContext* ctx, IteratorStateWriter* writer, const std::string& name,
                             const std::vector<const RecordBatch*>& ahead) const {
  std::vector<const RecordBatch*> batches = ahead;
  for (const RecordBatch& batch : restored_) batches.push_back(&batch);
  TF_RETURN_IF_ERROR(writer->WriteScalar(name, kEnded, ended_ ? 1 : 0));
  TF_RETURN_IF_ERROR(writer->WriteScalar(name, kNext, next_));
  TF_RETURN_IF_ERROR(writer->WriteScalar(name, kNumAhead, static_cast<int64_t>(batches.size())));
  for (size_t i = 0; i < batches.size(); ++i) {
    const RecordBatch& batch = *batches[i];
    const std::string at = absl::StrCat(name, "/ahead", i);
    TF_RETURN_IF_ERROR(writer->WriteScalar(at, kCode, static_cast<int64_t>(batch.status.code())));
    TF_RETURN_IF_ERROR(writer->WriteScalar(at, kMessage, tstring(MessageOf(batch.status))));
    Tensor records(tensorflow::DT_STRING, {static_cast<int64_t>(batch.records.size())});
    for (size_t r = 0; r < batch.records.size(); ++r) {
      records.vec<tstring>()(r).assign(batch.records[r].data, batch.records[r].size);
    }
    TF_RETURN_IF_ERROR(writer->WriteTensor(at, kRecords, records));
  }
  return stream_->Save(ctx, writer, name + "/stream");
}

TfStatus RecordBatcher::Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) {
  int64_t ended = 0, num_ahead = 0;
  TF_RETURN_IF_ERROR(reader->ReadScalar(name, kEnded, &ended));
  TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNext, &next_));
  TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNumAhead, &num_ahead));
  ended_ = ended != 0;
  restored_.clear();
  for (int64_t i = 0; i < num_ahead; ++i) {
    const std::string at = absl::StrCat(name, "/ahead", i);
    RecordBatch batch;
    int64_t code = 0;
    tstring message;
    Tensor records;
    TF_RETURN_IF_ERROR(reader->ReadScalar(at, kCode, &code));
    TF_RETURN_IF_ERROR(reader->ReadScalar(at, kMessage, &message));
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), at, kRecords, &records));
    batch.status = TensorFlowStatus(code, message);
    for (int64_t r = 0; r < records.NumElements(); ++r) {
      const tstring& bytes = records.vec<tstring>()(r);
      batch.owned.push_back(OwnedCopy(bytes.data(), bytes.size()));
      batch.records.push_back({batch.owned.back().get(), bytes.size()});
    }
    restored_.push_back(std::move(batch));
  }
  return stream_->Restore(ctx, reader, name + "/stream");
}

}  // namespace tf_booster
