#include "cc/tf/datasets/record_stream.h"

#include <utility>

#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OkStatus;
using TfStatus = tensorflow::Status;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;

namespace {

constexpr char kCount[] = "count";
constexpr char kHasInput[] = "has_input";

// A stream with one input and one number as its state.
class CountingStream : public RecordStream {
 public:
  explicit CountingStream(MakeRecordStream make_input) : make_input_(std::move(make_input)) {}

  TfStatus Start(IteratorContext* ctx) override { return MakeInput(ctx); }

  TfStatus Save(SerializationContext* ctx, IteratorStateWriter* writer, const std::string& name) const override {
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kCount, count_));
    return SaveInput(ctx, writer, name, input_.get());
  }

  TfStatus Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) override {
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kCount, &count_));
    return RestoreInput(ctx, reader, name, make_input_, &input_);
  }

 protected:
  TfStatus MakeInput(IteratorContext* ctx) {
    input_ = make_input_();
    return input_->Start(ctx);
  }

  TfStatus NextOfInput(IteratorContext* ctx, Record* record, bool* end) {
    if (input_ == nullptr) TF_RETURN_IF_ERROR(MakeInput(ctx));
    return input_->Next(ctx, record, end);
  }

  const MakeRecordStream make_input_;
  std::unique_ptr<RecordStream> input_;
  int64_t count_ = 0;
};

// count_: epochs that have ended. Behind the last one the input is made once more, as tf.data does: a shuffle in it
// draws the seeds of an epoch that nobody reads, and the next iterator goes on behind them.
class RepeatStream final : public CountingStream {
 public:
  RepeatStream(MakeRecordStream input, int64_t epochs) : CountingStream(std::move(input)), epochs_(epochs) {}

  TfStatus Start(IteratorContext* ctx) override { return epochs_ == 0 ? OkStatus() : MakeInput(ctx); }

  TfStatus Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) override {
    fresh_ = false;  // Nobody noted it. If it was, one more empty epoch tells.
    return CountingStream::Restore(ctx, reader, name);
  }

  TfStatus Next(IteratorContext* ctx, Record* record, bool* end) override {
    while (epochs_ < 0 || count_ < epochs_) {
      TF_RETURN_IF_ERROR(NextOfInput(ctx, record, end));
      const bool nothing = *end && fresh_;
      fresh_ = *end;
      if (!*end) return OkStatus();
      ++count_;
      TF_RETURN_IF_ERROR(MakeInput(ctx));
      if (epochs_ < 0 && nothing) return OkStatus();  // An endless stream of nothing ends.
    }
    input_.reset();
    *end = true;
    return OkStatus();
  }

 private:
  const int64_t epochs_;
  bool fresh_ = true;  // The input has given nothing yet.
};

// count_: records that were given.
class TakeStream final : public CountingStream {
 public:
  TakeStream(MakeRecordStream input, int64_t limit) : CountingStream(std::move(input)), limit_(limit) {}

  TfStatus Start(IteratorContext* ctx) override { return limit_ == 0 ? OkStatus() : MakeInput(ctx); }

  TfStatus Next(IteratorContext* ctx, Record* record, bool* end) override {
    *end = true;
    if (limit_ >= 0 && count_ >= limit_) return OkStatus();
    TF_RETURN_IF_ERROR(NextOfInput(ctx, record, end));
    if (!*end) ++count_;
    return OkStatus();
  }

 private:
  const int64_t limit_;
};

// count_: records that were left out.
class SkipStream final : public CountingStream {
 public:
  SkipStream(MakeRecordStream input, int64_t skipped) : CountingStream(std::move(input)), skipped_(skipped) {}

  TfStatus Start(IteratorContext* ctx) override { return skipped_ < 0 ? OkStatus() : MakeInput(ctx); }

  TfStatus Next(IteratorContext* ctx, Record* record, bool* end) override {
    *end = true;
    if (skipped_ < 0) return OkStatus();
    for (; count_ < skipped_; ++count_) {
      TF_RETURN_IF_ERROR(NextOfInput(ctx, record, end));
      if (*end) return OkStatus();
    }
    return NextOfInput(ctx, record, end);
  }

 private:
  const int64_t skipped_;
};

// count_: the number of the input's next record.
class ShardStream final : public CountingStream {
 public:
  ShardStream(MakeRecordStream input, int64_t num_shards, int64_t index)
      : CountingStream(std::move(input)), num_shards_(num_shards), index_(index) {}

  TfStatus Next(IteratorContext* ctx, Record* record, bool* end) override {
    while (true) {
      TF_RETURN_IF_ERROR(NextOfInput(ctx, record, end));
      if (*end || count_++ % num_shards_ == index_) return OkStatus();
    }
  }

 private:
  const int64_t num_shards_, index_;
};

}  // namespace

TfStatus SaveInput(SerializationContext* ctx, IteratorStateWriter* writer, const std::string& name,
                   const RecordStream* input) {
  TF_RETURN_IF_ERROR(writer->WriteScalar(name, kHasInput, input != nullptr ? 1 : 0));
  return input == nullptr ? OkStatus() : input->Save(ctx, writer, name + "/input");
}

TfStatus RestoreInput(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name,
                      const MakeRecordStream& make, std::unique_ptr<RecordStream>* input) {
  int64_t has_input = 0;
  TF_RETURN_IF_ERROR(reader->ReadScalar(name, kHasInput, &has_input));
  input->reset();
  if (has_input == 0) return OkStatus();
  *input = make();
  return (*input)->Restore(ctx, reader, name + "/input");
}

std::unique_ptr<RecordStream> RepeatRecords(MakeRecordStream input, int64_t count) {
  return std::make_unique<RepeatStream>(std::move(input), count);
}

std::unique_ptr<RecordStream> TakeRecords(MakeRecordStream input, int64_t count) {
  return std::make_unique<TakeStream>(std::move(input), count);
}

std::unique_ptr<RecordStream> SkipRecords(MakeRecordStream input, int64_t count) {
  return std::make_unique<SkipStream>(std::move(input), count);
}

std::unique_ptr<RecordStream> ShardRecords(MakeRecordStream input, int64_t num_shards, int64_t index) {
  return std::make_unique<ShardStream>(std::move(input), num_shards, index);
}

}  // namespace tf_booster
