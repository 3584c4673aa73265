#include "cc/tf/datasets/record_cache.h"

#include "tensorflow/core/framework/tensor.h"

namespace tf_booster {
namespace {

using tensorflow::OkStatus;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;

constexpr char kIsComplete[] = "is_complete";
constexpr char kNext[] = "next";
constexpr char kRecords[] = "records";

class CacheStream final : public RecordStream {
 public:
  CacheStream(MakeRecordStream make_input, std::shared_ptr<RecordCache> cache)
      : make_input_(std::move(make_input)), cache_(std::move(cache)) {}

  Status Start(IteratorContext* ctx) override {
    all_ = cache_->all();
    if (all_ != nullptr) return OkStatus();
    input_ = make_input_();
    return input_->Start(ctx);
  }

  Status Next(IteratorContext* ctx, Record* record, bool* end) override {
    if (all_ == nullptr) {
      TF_RETURN_IF_ERROR(input_->Next(ctx, record, end));
      if (!*end) {
        seen_.emplace_back(record->data, record->size);
        return OkStatus();
      }
      all_ = cache_->Keep(std::move(seen_));
      next_ = all_->size();
      input_.reset();
    }
    *end = next_ == all_->size();
    if (*end) return OkStatus();
    const std::string& kept = (*all_)[next_++];
    record->owned = OwnedCopy(kept.data(), kept.size());
    record->data = record->owned.get();
    record->size = kept.size();
    record->block = nullptr;
    return OkStatus();
  }

  Status Save(SerializationContext* ctx, IteratorStateWriter* writer, const std::string& name) const override {
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kIsComplete, all_ != nullptr ? 1 : 0));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kNext, static_cast<int64_t>(next_)));
    const RecordCache::Records& known = all_ != nullptr ? *all_ : seen_;
    Tensor records(tensorflow::DT_STRING, {static_cast<int64_t>(known.size())});
    for (size_t i = 0; i < known.size(); ++i) records.vec<tstring>()(i) = known[i];
    TF_RETURN_IF_ERROR(writer->WriteTensor(name, kRecords, records));
    return SaveInput(ctx, writer, name, input_.get());
  }

  Status Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) override {
    int64_t is_complete = 0, next = 0;
    Tensor records;
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kIsComplete, &is_complete));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNext, &next));
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), name, kRecords, &records));
    const auto& known = records.vec<tstring>();
    seen_.assign(known.data(), known.data() + records.NumElements());
    all_ = is_complete != 0 ? cache_->Keep(std::move(seen_)) : nullptr;
    next_ = next;
    return RestoreInput(ctx, reader, name, make_input_, &input_);
  }

 private:
  const MakeRecordStream make_input_;
  const std::shared_ptr<RecordCache> cache_;
  std::unique_ptr<RecordStream> input_;  // Null where the records come from the cache, or have ended.
  RecordCache::Records seen_;            // Of the input so far.
  std::shared_ptr<const RecordCache::Records> all_;
  size_t next_ = 0;  // Of all_.
};

}  // namespace

std::unique_ptr<RecordStream> CacheRecords(MakeRecordStream input, std::shared_ptr<RecordCache> cache) {
  return std::make_unique<CacheStream>(std::move(input), std::move(cache));
}

}  // namespace tf_booster
