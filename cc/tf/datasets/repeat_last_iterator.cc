// State: the element that was handed out last, which may have to come again, and what was met one place ahead: an
// element, an error or the end. All of it is saved.
#include "cc/tf/datasets/repeat_last_iterator.h"

#include <utility>
#include <vector>

#include "cc/tf/kernels/status.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::mutex;
using tensorflow::mutex_lock;
using tensorflow::OkStatus;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;

constexpr char kStarted[] = "started";
constexpr char kEnded[] = "ended";
constexpr char kHasInput[] = "has_input";
constexpr char kCode[] = "code";
constexpr char kMessage[] = "message";
constexpr char kAhead[] = "ahead";
constexpr char kLast[] = "last";

class RepeatLastIterator final : public tensorflow::data::DatasetIterator<RepeatLastDataset> {
 public:
  explicit RepeatLastIterator(const Params& params) : DatasetIterator(params) {}

  bool SymbolicCheckpointCompatible() const override { return false; }

  Status Initialize(IteratorContext* ctx) override {
    return dataset()->input()->MakeIterator(ctx, this, prefix(), &input_);
  }

  Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* element, bool* end) override {
    mutex_lock lock(mu_);
    *end = false;
    if (!started_) LookAhead(ctx);
    if (!ahead_status_.ok()) {
      Status status = std::move(ahead_status_);
      LookAhead(ctx);
      return status;
    }
    const bool live = !ended_;
    if (live) {
      last_ = std::move(ahead_);
      LookAhead(ctx);
    } else if (last_.empty()) {
      TF_RETURN_IF_ERROR(GetFallback(ctx, end));
      if (*end) return OkStatus();
    }
    *element = last_;
    element->push_back(Tensor(live ? 1.0f : 0.0f));
    // After an error there may be more elements: one that is met ahead counts as one.
    element->push_back(Tensor(live && !ended_ ? 1.0f : 0.0f));
    return OkStatus();
  }

 protected:
  std::shared_ptr<tensorflow::data::model::Node> CreateNode(IteratorContext* ctx,
                                                            tensorflow::data::model::Node::Args args) const override {
    return tensorflow::data::model::MakeKnownRatioNode(std::move(args), /*ratio=*/1);
  }

  Status SaveInternal(SerializationContext* ctx, IteratorStateWriter* writer) override {
    mutex_lock lock(mu_);
    TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kStarted, static_cast<int64_t>(started_)));
    TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kEnded, static_cast<int64_t>(ended_)));
    TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kHasInput, static_cast<int64_t>(input_ != nullptr)));
    TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kCode, static_cast<int64_t>(ahead_status_.code())));
    TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kMessage, tstring(MessageOf(ahead_status_))));
    TF_RETURN_IF_ERROR(Write(writer, kAhead, ahead_));
    TF_RETURN_IF_ERROR(Write(writer, kLast, last_));
    return input_ == nullptr ? OkStatus() : SaveInput(ctx, writer, input_);
  }

  Status RestoreInternal(IteratorContext* ctx, IteratorStateReader* reader) override {
    mutex_lock lock(mu_);
    int64_t started = 0, ended = 0, has_input = 0, code = 0;
    tstring message;
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kStarted, &started));
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kEnded, &ended));
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kHasInput, &has_input));
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kCode, &code));
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kMessage, &message));
    TF_RETURN_IF_ERROR(Read(ctx, reader, kAhead, &ahead_));
    TF_RETURN_IF_ERROR(Read(ctx, reader, kLast, &last_));
    started_ = started != 0;
    ended_ = ended != 0;
    ahead_status_ = TensorFlowStatus(code, message);
    if (has_input == 0) {
      input_.reset();
      return OkStatus();
    }
    if (input_ == nullptr) TF_RETURN_IF_ERROR(dataset()->input()->MakeIterator(ctx, this, prefix(), &input_));
    return RestoreInput(ctx, reader, input_);
  }

 private:
  void LookAhead(IteratorContext* ctx) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    started_ = true;
    ahead_.clear();
    ahead_status_ = input_->GetNext(ctx, &ahead_, &ended_);
    if (!ahead_status_.ok()) {
      ahead_.clear();
      ended_ = false;
    }
    if (ended_) input_.reset();  // Its buffers are free while other ranks go on.
  }

  // Makes the fallback's first element the one that is repeated.
  Status GetFallback(IteratorContext* ctx, bool* end) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::unique_ptr<IteratorBase> fallback;
    TF_RETURN_IF_ERROR(dataset()->fallback()->MakeIterator(ctx, this, prefix() + "[fallback]", &fallback));
    return fallback->GetNext(ctx, &last_, end);
  }

  Status Write(IteratorStateWriter* writer, const std::string& name, const std::vector<Tensor>& element) {
    TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), name, static_cast<int64_t>(element.size())));
    for (size_t i = 0; i < element.size(); ++i) {
      TF_RETURN_IF_ERROR(writer->WriteTensor(prefix(), name + std::to_string(i), element[i]));
    }
    return OkStatus();
  }

  Status Read(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name,
              std::vector<Tensor>* element) {
    int64_t size = 0;
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), name, &size));
    element->assign(size, Tensor());
    for (int64_t i = 0; i < size; ++i) {
      TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), prefix(), name + std::to_string(i), &(*element)[i]));
    }
    return OkStatus();
  }

  mutex mu_;
  std::unique_ptr<IteratorBase> input_ TF_GUARDED_BY(mu_);  // Null when it has ended.
  bool started_ TF_GUARDED_BY(mu_) = false;
  bool ended_ TF_GUARDED_BY(mu_) = false;
  Status ahead_status_ TF_GUARDED_BY(mu_);
  std::vector<Tensor> ahead_ TF_GUARDED_BY(mu_);
  std::vector<Tensor> last_ TF_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<IteratorBase> MakeRepeatLastIterator(const RepeatLastDataset* dataset, const std::string& prefix) {
  return std::make_unique<RepeatLastIterator>(RepeatLastIterator::Params{dataset, prefix});
}

}  // namespace tf_booster
