// tf.data fills a ring of buffer_size places, position p in place p % buffer_size, draws one of the positions
// [first, last), gives its record out, and moves the record of position `first` into its place. Here the same is done,
// so that the same seeds give the same order.
//
// Where a repeat follows, tf.data makes one of the two: at the end of an epoch the ring is filled with the next one's
// records while those that are left are given out, epoch after epoch, each shuffled by seeds of its own. That changes
// no order, but the place of an error, and nobody waits for a whole ring at the start of an epoch.
#include "cc/tf/datasets/record_shuffle.h"

#include <algorithm>
#include <deque>
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
constexpr char kEpoch[] = "epoch";
constexpr char kEpochStarts[] = "epoch_starts";
constexpr char kBuffer[] = "buffer";
constexpr size_t kMostEpochs = 3;  // That end in the ring before tf.data stops filling it.

class ShuffleStream final : public RecordStream {
 public:
  ShuffleStream(MakeRecordStream make_input, int64_t buffer_size, std::shared_ptr<SeedSequence> seeds, int64_t epochs)
      : make_input_(std::move(make_input)), size_(buffer_size), seeds_(std::move(seeds)), epochs_(epochs) {
    DrawSeeds();
  }

  // The input is made when its first record is asked for.
  Status Start(IteratorContext* ctx) override { return OkStatus(); }

  Status Next(IteratorContext* ctx, Record* record, bool* end) override {
    TF_RETURN_IF_ERROR(Fill(ctx));
    *end = first_ == last_;
    if (*end) return OkStatus();
    while (EndOfEpoch() == first_) {
      starts_.pop_front();
      DrawSeeds();
    }
    ++drawn_;
    Kept& chosen = ring_[(first_ + numbers_.Next() % (EndOfEpoch() - first_)) % size_];
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
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kEpoch, epoch_));
    Tensor starts(tensorflow::DT_INT64, {static_cast<int64_t>(starts_.size())});
    std::copy(starts_.begin(), starts_.end(), starts.vec<int64_t>().data());
    TF_RETURN_IF_ERROR(writer->WriteTensor(name, kEpochStarts, starts));
    Tensor buffer(tensorflow::DT_STRING, {last_ - first_});
    for (int64_t p = first_; p < last_; ++p) {
      const Kept& kept = ring_[p % size_];
      buffer.vec<tstring>()(p - first_).assign(kept.bytes.get(), kept.size);
    }
    TF_RETURN_IF_ERROR(writer->WriteTensor(name, kBuffer, buffer));
    return SaveInput(ctx, writer, name, input_.get());
  }

  Status Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) override {
    int64_t seeds_drawn = 0;
    Tensor starts, buffer;
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kSeedsDrawn, &seeds_drawn));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kSeed, &seed_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kSeed2, &seed2_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNumbersDrawn, &drawn_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kFirst, &first_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kEpoch, &epoch_));
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), name, kEpochStarts, &starts));
    TF_RETURN_IF_ERROR(reader->ReadTensor(ctx->flr(), name, kBuffer, &buffer));
    if (buffer.NumElements() > size_) {
      return tensorflow::errors::FailedPrecondition("shuffle: the saved iterator held ", buffer.NumElements(),
                                                    " records, more than the buffer of ", size_);
    }
    seeds_->set_drawn(seeds_drawn);
    numbers_ = RandomNumbers(seed_, seed2_);
    numbers_.Skip(drawn_);
    const int64_t* const first_start = starts.vec<int64_t>().data();
    starts_.assign(first_start, first_start + starts.NumElements());
    last_ = first_;
    MakeRing();
    for (int64_t i = 0; i < buffer.NumElements(); ++i) {
      const tstring& bytes = buffer.vec<tstring>()(i);
      Keep(bytes.data(), bytes.size());
    }
    return RestoreInput(ctx, reader, name, make_input_, &input_);
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
    place.bytes = OwnedCopy(data, size);
    place.size = size;
  }

  // Of the next epoch. The first one's are drawn when the stream is made.
  void DrawSeeds() {
    std::tie(seed_, seed2_) = seeds_->Next();
    numbers_ = RandomNumbers(seed_, seed2_);
    drawn_ = 0;
  }

  // Behind the last position of the epoch that is given out.
  int64_t EndOfEpoch() const { return starts_.size() > 1 ? starts_[1] : last_; }

  bool WantsMore() const {
    if (input_ == nullptr && epochs_ >= 0 && epoch_ >= epochs_) return false;
    if (starts_.size() > kMostEpochs && first_ < last_) return false;
    return last_ - first_ < size_;
  }

  Status Fill(IteratorContext* ctx) {
    MakeRing();
    while (WantsMore()) {
      if (input_ == nullptr) {
        input_ = make_input_();
        TF_RETURN_IF_ERROR(input_->Start(ctx));
        starts_.push_back(last_);
        ++epoch_;
      }
      Record record;
      bool ended = false;
      TF_RETURN_IF_ERROR(input_->Next(ctx, &record, &ended));
      if (ended) {
        input_.reset();
        if (epochs_ < 0 && last_ == 0) break;  // An endless stream of nothing ends.
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
  const int64_t epochs_;
  int64_t seed_ = 0, seed2_ = 0;
  RandomNumbers numbers_{0, 0};
  int64_t drawn_ = 0;
  std::unique_ptr<RecordStream> input_;
  int64_t epoch_ = 0;           // How many have begun.
  std::deque<int64_t> starts_;  // Of the epochs in the ring, the one that is given out first.
  std::unique_ptr<Kept[]> ring_;
  int64_t first_ = 0, last_ = 0;  // Positions in the buffer.
};

}  // namespace

std::unique_ptr<RecordStream> ShuffleRecords(MakeRecordStream input, int64_t buffer_size,
                                             std::shared_ptr<SeedSequence> seeds, int64_t epochs) {
  return std::make_unique<ShuffleStream>(std::move(input), buffer_size, std::move(seeds), epochs);
}

}  // namespace tf_booster
