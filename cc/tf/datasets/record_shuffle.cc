// tf.data fills a ring of buffer_size places, position p in place p % buffer_size, draws one of the positions
// [first, last), gives its record out, and moves the record of position `first` into its place. Here the same is done,
// so that the same seeds give the same order. What tf.data's fused shuffle-and-repeat does at the end of an epoch
// changes no order: it draws from the positions of one epoch at a time.
#include "cc/tf/datasets/record_shuffle.h"

#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"

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

constexpr char kSeedsDrawn[] = "seeds_drawn";
constexpr char kSeed[] = "seed";
constexpr char kSeed2[] = "seed2";
constexpr char kNumbersDrawn[] = "numbers_drawn";
constexpr char kFirst[] = "first";
constexpr char kState[] = "state";  // 0: not started, 1: input is open, 2: input has ended.
constexpr char kBuffer[] = "buffer";

class ShuffleStream final : public RecordStream {
 public:
  ShuffleStream(MakeRecordStream make_input, int64_t buffer_size, std::shared_ptr<SeedSequence> seeds)
      : make_input_(std::move(make_input)), size_(buffer_size), seeds_(std::move(seeds)) {
    std::tie(seed_, seed2_) = seeds_->Next();
    numbers_ = RandomNumbers(seed_, seed2_);
  }

  Status Next(IteratorContext* ctx, Record* record, bool* end) override {
    TF_RETURN_IF_ERROR(Fill(ctx));
    *end = first_ == last_;
    if (*end) return OkStatus();
    ++drawn_;
    Kept& chosen = ring_[(first_ + numbers_.Next() % (last_ - first_)) % size_];
    record->owned = std::move(chosen.bytes);
    record->data = record->owned.get();
    record->size = chosen.size;
    record->block = nullptr;
    std::swap(chosen, ring_[first_ % size_]);
    ++first_;
    return OkStatus();
  }

  Status Save(SerializationContext* ctx, IteratorStateWriter* writer, const std::string& name) const override {
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kSeedsDrawn, seeds_->drawn()));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kSeed, seed_));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kSeed2, seed2_));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kNumbersDrawn, drawn_));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kFirst, first_));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kState, ended_ ? 2 : input_ != nullptr ? 1 : 0));
    Tensor buffer(tensorflow::DT_STRING, {last_ - first_});
    for (int64_t p = first_; p < last_; ++p) {
      const Kept& kept = ring_[p % size_];
      buffer.vec<tstring>()(p - first_).assign(kept.bytes.get(), kept.size);
    }
    TF_RETURN_IF_ERROR(writer->WriteTensor(name, kBuffer, buffer));
    return input_ == nullptr ? OkStatus() : input_->Save(ctx, writer, name + "/input");
  }

  Status Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) override {
    int64_t seeds_drawn = 0, state = 0;
    Tensor buffer;
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kSeedsDrawn, &seeds_drawn));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kSeed, &seed_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kSeed2, &seed2_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNumbersDrawn, &drawn_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kFirst, &first_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kState, &state));
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), name, kBuffer, &buffer));
    if (buffer.NumElements() > size_) {
      return tensorflow::errors::FailedPrecondition("TFRecordExampleDataset: the saved iterator shuffled ",
                                                    buffer.NumElements(), " records, more than the buffer of ", size_);
    }
    seeds_->set_drawn(seeds_drawn);
    numbers_ = RandomNumbers(seed_, seed2_);
    numbers_.Skip(drawn_);
    last_ = first_;
    MakeRing();
    for (int64_t i = 0; i < buffer.NumElements(); ++i) {
      const tstring& bytes = buffer.vec<tstring>()(i);
      Keep(bytes.data(), bytes.size());
    }
    ended_ = state == 2;
    input_.reset();
    if (state != 1) return OkStatus();
    input_ = make_input_();
    return input_->Restore(ctx, reader, name + "/input");
  }

 private:
  struct Kept {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };

  void MakeRing() {
    if (ring_ == nullptr) ring_ = std::make_unique<Kept[]>(size_);
  }

  void Keep(const char* data, size_t size) {
    Kept& place = ring_[last_++ % size_];
    place.bytes.reset(new char[size]);
    place.size = size;
    if (size > 0) std::memcpy(place.bytes.get(), data, size);
  }

  Status Fill(IteratorContext* ctx) {
    MakeRing();
    while (!ended_ && last_ - first_ < size_) {
      if (input_ == nullptr) input_ = make_input_();
      Record record;
      TF_RETURN_IF_ERROR(input_->Next(ctx, &record, &ended_));
      if (ended_) {
        input_.reset();
      } else if (record.owned != nullptr) {
        ring_[last_++ % size_] = {std::move(record.owned), record.size};
      } else {
        Keep(record.data, record.size);
      }
    }
    return OkStatus();
  }

  const MakeRecordStream make_input_;
  const int64_t size_;
  const std::shared_ptr<SeedSequence> seeds_;
  int64_t seed_ = 0, seed2_ = 0;
  RandomNumbers numbers_{0, 0};
  int64_t drawn_ = 0;
  std::unique_ptr<RecordStream> input_;
  bool ended_ = false;
  std::unique_ptr<Kept[]> ring_;
  int64_t first_ = 0, last_ = 0;  // Positions in the buffer.
};

}  // namespace

std::unique_ptr<RecordStream> ShuffleRecords(MakeRecordStream input, int64_t buffer_size,
                                             std::shared_ptr<SeedSequence> seeds) {
  return std::make_unique<ShuffleStream>(std::move(input), buffer_size, std::move(seeds));
}

}  // namespace tf_booster
