#include "cc/tf/datasets/file_interleave.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/tf/kernels/status.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OkStatus;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;

constexpr char kNumPlaces[] = "num_places";
constexpr char kPlace[] = "place";
constexpr char kInBlock[] = "in_block";
constexpr char kNamesEnded[] = "names_ended";
constexpr char kNumAhead[] = "num_ahead";
constexpr char kName[] = "name";
constexpr char kOffset[] = "offset";
constexpr char kEnded[] = "ended";

// Files that are opened before their turn, while places are still empty. Afterwards ReadOptions has a say.
constexpr size_t kMaxAhead = 16;

class FileInterleave final : public RecordStream {
 public:
  FileInterleave(const ReadOptions* read, const InterleaveOptions& options, MakeFileNames make_names)
      : read_(read), options_(options), make_names_(std::move(make_names)), places_(options.cycle_length) {}

  Status Start(IteratorContext* ctx) override { return make_names_(ctx, &names_); }

  Status Next(IteratorContext* ctx, Record* record, bool* end) override {
    while (true) {
      std::unique_ptr<RecordFile>& file = places_[place_];
      if (file != nullptr) {
        bool file_ended = false;
        const Status status = AsTensorFlow(file->Next(record, &file_ended));
        if (!status.ok() && (!options_.errors_count || tensorflow::errors::IsCancelled(status))) return status;
        if (!file_ended) {
          if (++in_block_ >= options_.block_length) ToNextPlace();
          *end = false;
          return status;
        }
        file.reset();
        --num_open_;
        ToNextPlace();
      } else {
        LookAhead(ctx);
        if (ahead_.empty()) {
          if (num_open_ == 0) break;
          ToNextPlace();
          continue;
        }
        Ahead next = std::move(ahead_.front());
        ahead_.pop_front();
        if (!next.status.ok()) return next.status;
        file = std::move(next.file);
        ++num_open_;
        LookAhead(ctx);
      }
    }
    *end = true;
    return OkStatus();
  }

  Status Save(SerializationContext* ctx, IteratorStateWriter* writer, const std::string& name) const override {
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kNumPlaces, static_cast<int64_t>(places_.size())));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kPlace, place_));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kInBlock, in_block_));
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kNamesEnded, names_ended_ ? 1 : 0));
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] != nullptr) TF_RETURN_IF_ERROR(SaveFile(writer, absl::StrCat(name, "/", i), *places_[i]));
    }
    int64_t num_ahead = 0;
    for (const Ahead& ahead : ahead_) {
      if (!ahead.status.ok()) continue;  // An error of the pipeline before; it will not come again.
      TF_RETURN_IF_ERROR(SaveFile(writer, absl::StrCat(name, "/ahead", num_ahead++), *ahead.file));
    }
    TF_RETURN_IF_ERROR(writer->WriteScalar(name, kNumAhead, num_ahead));
    return names_ == nullptr ? OkStatus() : names_->Save(ctx, writer);
  }

  Status Restore(IteratorContext* ctx, IteratorStateReader* reader, const std::string& name) override {
    int64_t names_ended = 0, num_ahead = 0, num_places = 0, place = 0;
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNumPlaces, &num_places));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kPlace, &place));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kInBlock, &in_block_));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNamesEnded, &names_ended));
    TF_RETURN_IF_ERROR(reader->ReadScalar(name, kNumAhead, &num_ahead));
    if (num_places != static_cast<int64_t>(places_.size())) {
      return tensorflow::errors::FailedPrecondition(read_->op, ": the saved iterator had cycle_length ", num_places,
                                                    ", this one has ", places_.size());
    }
    place_ = place;
    num_open_ = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      places_[i].reset();
      const std::string at = absl::StrCat(name, "/", i);
      if (!reader->Contains(at, kName)) continue;
      TF_RETURN_IF_ERROR(RestoreFile(reader, at, &places_[i]));
      ++num_open_;
    }
    ahead_.clear();
    for (int64_t i = 0; i < num_ahead; ++i) {
      ahead_.emplace_back();
      TF_RETURN_IF_ERROR(RestoreFile(reader, absl::StrCat(name, "/ahead", i), &ahead_.back().file));
    }
    names_ended_ = names_ended == 1;
    names_.reset();
    if (names_ended_) return OkStatus();
    TF_RETURN_IF_ERROR(make_names_(ctx, &names_));
    // 2, in states of version 0.2: nobody had asked for names.
    return names_ended == 2 ? OkStatus() : names_->Restore(ctx, reader);
  }

 private:
  struct Ahead {
    Status status;
    std::unique_ptr<RecordFile> file;
  };

  void ToNextPlace() {
    in_block_ = 0;
    place_ = (place_ + 1) % places_.size();
  }

  // Takes names until enough files are open ahead. Errors wait for their turn.
  void LookAhead(IteratorContext* ctx) {
    const size_t wanted = std::clamp<size_t>(places_.size() - num_open_, read_->files_ahead, kMaxAhead);
    while (!names_ended_ && ahead_.size() < wanted) {
      std::vector<Tensor> element;
      Ahead ahead;
      ahead.status = names_->GetNext(ctx, &element, &names_ended_);
      if (ahead.status.ok() && names_ended_) {
        names_.reset();
        break;
      }
      if (ahead.status.ok()) {
        ahead.file = std::make_unique<RecordFile>(read_, std::string(element[0].scalar<tstring>()()), 0);
        ahead.file->Start();
      }
      ahead_.push_back(std::move(ahead));
      if (!ahead_.back().status.ok()) break;  // The next name may be worth asking for only when this one was reported.
    }
  }

  static Status SaveFile(IteratorStateWriter* writer, const std::string& at, const RecordFile& file) {
    TF_RETURN_IF_ERROR(writer->WriteScalar(at, kName, tstring(file.name())));
    // A damaged file whose error was given keeps its place until its next turn, and would give the error once more.
    if (file.ended()) TF_RETURN_IF_ERROR(writer->WriteScalar(at, kEnded, 1));
    return writer->WriteScalar(at, kOffset, static_cast<int64_t>(file.offset()));
  }

  Status RestoreFile(IteratorStateReader* reader, const std::string& at, std::unique_ptr<RecordFile>* file) const {
    tstring name;
    int64_t offset = 0;
    TF_RETURN_IF_ERROR(reader->ReadScalar(at, kName, &name));
    TF_RETURN_IF_ERROR(reader->ReadScalar(at, kOffset, &offset));
    *file = std::make_unique<RecordFile>(read_, std::string(name), static_cast<uint64_t>(offset));
    if (reader->Contains(at, kEnded)) {
      (*file)->End();
    } else {
      (*file)->Start();
    }
    return OkStatus();
  }

  const ReadOptions* const read_;
  const InterleaveOptions options_;
  const MakeFileNames make_names_;
  std::unique_ptr<IteratorBase> names_;
  bool names_ended_ = false;
  std::deque<Ahead> ahead_;
  std::vector<std::unique_ptr<RecordFile>> places_;
  size_t num_open_ = 0;
  size_t place_ = 0;
  int64_t in_block_ = 0;
};

}  // namespace

std::unique_ptr<RecordStream> InterleaveFiles(const ReadOptions* read, const InterleaveOptions& options,
                                              MakeFileNames make_names) {
  return std::make_unique<FileInterleave>(read, options, std::move(make_names));
}

}  // namespace tf_booster
