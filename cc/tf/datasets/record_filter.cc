#include "cc/tf/datasets/record_filter.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "cc/tf/kernels/status.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OkStatus;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::InstantiatedCapturedFunction;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;
using TfStatus = tensorflow::Status;

constexpr char kRecords[] = "records";
constexpr char kCodes[] = "codes";
constexpr char kMessages[] = "messages";
// Records of which one call of the predicate decides: it costs some 20 us, as much as the keys of 20 to 100 records.
constexpr size_t kRecordsAtOnce = 256;

class FilterStream final : public RecordStream {
 public:
  FilterStream(MakeRecordStream make_input, std::shared_ptr<const RecordFilter> filter)
      : make_input_(std::move(make_input)), filter_(std::move(filter)) {}

  TfStatus Start(IteratorContext* ctx) override {
    input_ = make_input_();
    return input_->Start(ctx);
  }

  TfStatus Next(IteratorContext* ctx, Record* record, bool* end) override {
    while (ready_.empty() && input_ != nullptr) TF_RETURN_IF_ERROR(Fill(ctx));
    *end = ready_.empty();
    if (*end) return OkStatus();
    given_ = std::move(ready_.front());
    ready_.pop_front();
    if (!given_.status.ok()) return given_.status;
    *record = std::move(given_.record);
    if (given_.block != nullptr) record->block = &given_.block;
    return OkStatus();
  }

  TfStatus Save(SerializationContext* ctx, IteratorStateWriter* writer, const std::string& name) const override {
    const auto n = static_cast<int64_t>(ready_.size());
    Tensor records(tensorflow::DT_STRING, {n}), codes(tensorflow::DT_INT64, {n}), messages(tensorflow::DT_STRING, {n});
    for (int64_t i = 0; i < n; ++i) {
      const Held& held = ready_[i];
      records.vec<tstring>()(i).assign(held.record.data, held.record.size);
      codes.vec<int64_t>()(i) = static_cast<int64_t>(held.status.code());
      messages.vec<tstring>()(i) = tstring(MessageOf(held.status));
    }
    TF_RETURN_IF_ERROR(writer->WriteTensor(name, kRecords, records));
    TF_RETURN_IF_ERROR(writer->WriteTensor(name, kCodes, codes));
    TF_RETURN_IF_ERROR(writer->WriteTensor(name, kMessages, messages));
    return SaveInput(ctx, writer, name, input_.get());
  }

  TfStatus Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) override {
    Tensor records, codes, messages;
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), name, kRecords, &records));
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), name, kCodes, &codes));
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), name, kMessages, &messages));
    ready_.clear();
    for (int64_t i = 0; i < records.NumElements(); ++i) {
      const tstring& bytes = records.vec<tstring>()(i);
      Held held;
      held.status = TensorFlowStatus(codes.vec<int64_t>()(i), messages.vec<tstring>()(i));
      held.record.owned = OwnedCopy(bytes.data(), bytes.size());
      held.record.data = held.record.owned.get();
      held.record.size = bytes.size();
      ready_.push_back(std::move(held));
    }
    return RestoreInput(ctx, reader, name, make_input_, &input_);
  }

 private:
  struct Held {
    Record record;
    std::shared_ptr<RecordBlock> block;  // Where the record lies, unless it has memory of its own.
    TfStatus status;                     // In place of the record.
    bool stays = true;
  };

  // The next records are read, up to an error or the end of the input, and asked.
  TfStatus Fill(IteratorContext* ctx) {
    if (predicate_ == nullptr) TF_RETURN_IF_ERROR(filter_->predicate->Instantiate(ctx, &predicate_));
    std::vector<Held> read;
    TfStatus failed;
    while (read.size() < kRecordsAtOnce) {
      Held held;
      bool end = false;
      failed = input_->Next(ctx, &held.record, &end);
      if (!failed.ok()) break;
      if (end) {
        input_.reset();
        break;
      }
      if (held.record.owned == nullptr) held.block = *held.record.block;
      held.record.block = nullptr;
      read.push_back(std::move(held));
    }
    filter_->by_row ? AskByRow(ctx, &read) : AskOneByOne(ctx, &read);
    for (Held& held : read) {
      if (held.stays || !held.status.ok()) ready_.push_back(std::move(held));
    }
    if (!failed.ok()) {
      ready_.emplace_back();
      ready_.back().status = std::move(failed);
    }
    return OkStatus();
  }

  // Each sets what stays, and errors. What does not stay must be whole all the same.
  void AskByRow(IteratorContext* ctx, std::vector<Held>* read) const {
    if (read->size() < 2 || !AskRows(ctx, read->data(), read->size()).ok()) {
      for (Held& held : *read) {
        held.status = AskRows(ctx, &held, 1);
        if (!held.status.ok()) held.stays = false;
      }
    }
    std::vector<Held*> dropped;
    for (Held& held : *read) {
      if (!held.stays) dropped.push_back(&held);
    }
    Check(dropped);
  }

  // A predicate with random numbers draws them for whole records only.
  void AskOneByOne(IteratorContext* ctx, std::vector<Held>* read) const {
    std::vector<Held*> all;
    for (Held& held : *read) all.push_back(&held);
    Check(all);
    for (Held& held : *read) {
      if (held.status.ok()) held.status = AskOne(ctx, &held);
    }
  }

  TfStatus AskRows(IteratorContext* ctx, Held* first, size_t n) const {
    RecordBatch batch;
    for (size_t i = 0; i < n; ++i) batch.records.push_back({first[i].record.data, first[i].record.size});
    std::vector<Tensor> arguments, answers;
    TF_RETURN_IF_ERROR(filter_->parser->Parse(batch, &arguments));
    TF_RETURN_IF_ERROR(predicate_->RunWithBorrowedArgs(ctx, arguments, &answers));
    TF_RETURN_IF_ERROR(CheckAnswers(answers, {static_cast<int64_t>(n)}));
    for (size_t i = 0; i < n; ++i) first[i].stays = answers[0].flat<bool>()(i);
    return OkStatus();
  }

  TfStatus AskOne(IteratorContext* ctx, Held* held) const {
    std::vector<Tensor> arguments, answers;
    if (filter_->parser != nullptr) {
      TF_RETURN_IF_ERROR(filter_->parser->ParseOne({held->record.data, held->record.size}, &arguments));
    }
    TF_RETURN_IF_ERROR(predicate_->RunWithBorrowedArgs(ctx, arguments, &answers));
    TF_RETURN_IF_ERROR(CheckAnswers(answers, {}));
    held->stays = answers[0].flat<bool>()(0);
    return OkStatus();
  }

  static TfStatus CheckAnswers(const std::vector<Tensor>& answers, const tensorflow::TensorShape& wanted) {
    if (answers.size() == 1 && answers[0].dtype() == tensorflow::DT_BOOL && answers[0].shape() == wanted) {
      return OkStatus();
    }
    return tensorflow::errors::InvalidArgument("TFRecordExampleDataset: a filter's predicate gives ", answers.size(),
                                               " tensors",
                                               answers.empty() ? "" : ", the first of " + answers[0].DebugString(0),
                                               "; wanted one bool of shape ", wanted.DebugString());
  }

  // Sets the errors of records that cannot be parsed.
  void Check(const std::vector<Held*>& records) const {
    RecordBatch batch;
    for (const Held* held : records) batch.records.push_back({held->record.data, held->record.size});
    std::vector<Tensor> unused;
    if (records.empty() || filter_->checker->Parse(batch, &unused).ok()) return;
    for (Held* held : records) {
      batch.records = {{held->record.data, held->record.size}};
      TfStatus status = filter_->checker->Parse(batch, &unused);
      if (!status.ok()) held->status = std::move(status);
    }
  }

  const MakeRecordStream make_input_;
  const std::shared_ptr<const RecordFilter> filter_;
  std::unique_ptr<RecordStream> input_;  // Null at its end.
  std::unique_ptr<InstantiatedCapturedFunction> predicate_;
  std::deque<Held> ready_;
  Held given_;  // Keeps the block of the record that was given last.
};

// The features of `of` that are called so.
template <typename Feature>
void Select(const std::vector<Feature>& of, const std::vector<std::string>& keys, std::vector<Feature>* selected) {
  for (const Feature& feature : of) {
    if (std::find(keys.begin(), keys.end(), std::string(feature.feature_name)) != keys.end()) {
      selected->push_back(feature);
    }
  }
}

}  // namespace

TfStatus RecordFilter::SetFeatures(const ElementParser::Config& features,
                                   std::shared_ptr<const ElementParser> parser_of_all) {
  checker = std::move(parser_of_all);
  ElementParser::Config wanted;
  Select(features.dense, keys, &wanted.dense);
  Select(features.sparse, keys, &wanted.sparse);
  if (wanted.dense.size() + wanted.sparse.size() != keys.size()) {
    return tensorflow::errors::InvalidArgument("TFRecordExampleDataset: a filter asks for ", keys.size(),
                                               " features, but ", wanted.dense.size() + wanted.sparse.size(),
                                               " of them are parsed; wanted names of dense and sparse ones");
  }
  if (keys.empty()) return OkStatus();
  std::unique_ptr<const ElementParser> made;
  TF_RETURN_IF_ERROR(ElementParser::Make(wanted, ExampleBatchParser::Semantics::kSingle, &made));
  parser = std::move(made);
  return OkStatus();
}

std::unique_ptr<RecordStream> FilterRecords(MakeRecordStream input, std::shared_ptr<const RecordFilter> filter) {
  return std::make_unique<FilterStream>(std::move(input), std::move(filter));
}

}  // namespace tf_booster
