#include "cc/core/record_reader/record_file.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "cc/core/record_reader/line_framing.h"

namespace tf_booster {

namespace {

// Where the thread that reads a block parses it, too: it is in the second-level cache still. Two threads, 39 ids a
// record: 330 ns a record with blocks of 1 MiB, 301 so.
constexpr size_t kOwnBlockBytes = 256 << 10;
constexpr size_t kLeastBlockBytes = 128 << 10;  // A read costs 1 us beside its bytes.

}  // namespace

RecordFile::RecordFile(const ReadOptions* options, std::string name, uint64_t offset)
    : options_(options),
      name_(std::move(name)),
      offset_(offset),
      header_records_(offset == 0 ? options->header_records : 0),
      load_offset_(offset) {}

RecordFile::~RecordFile() {
  std::unique_lock<std::mutex> lock(mutex_);
  stop_ = true;
  changed_.wait(lock, [this] { return !scheduled_; });
}

void RecordFile::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  ScheduleLoad();
}

Status RecordFile::InFile(const Status& status) const {
  if (status.ok()) return status;
  return {status.code(), options_->op + ": " + status.message() + " (" + name_ + ")"};
}

bool RecordFile::MayLoad() const {
  return !stop_ && !no_more_ && open_error_.ok() && ready_.size() < options_->blocks_ahead &&
         !options_->cancelled->load();
}

void RecordFile::ScheduleLoad() {
  // A thread that wakes up loads several blocks: on a busy machine it may wait for a processor as long as it then runs.
  if (scheduled_ || !MayLoad() || ready_.size() > options_->blocks_ahead / 2) return;
  if (!options_->ahead->by_own_threads()) return;
  scheduled_ = true;
  options_->schedule([this] { LoadAhead(); });
}

void RecordFile::LoadAhead() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (MayLoad() && !loading_) LoadBlock(&lock);
  scheduled_ = false;
  changed_.notify_all();  // Under the lock: the destructor may run as soon as it is free.
}

void RecordFile::LoadBlock(std::unique_lock<std::mutex>* lock) {
  loading_ = true;
  lock->unlock();
  std::shared_ptr<RecordBlock> block = options_->blocks->Take();
  Status opened = Fill(block.get());
  lock->lock();
  loading_ = false;
  if (opened.ok()) {
    previous_ = block;
    no_more_ = block->last;
    if (no_more_) previous_.reset();
    ready_.push_back(std::move(block));
  }
  open_error_ = std::move(opened);
  changed_.notify_all();
}

// Whoever gathers a batch reads little more than it wants, in equal parts: what is left is parsed by another thread, in
// whose caches it is not, and a thread that has to read more for its batch than another one keeps that waiting. Two
// threads, 39 ids a record: 160 ns a record with blocks of 256 KiB throughout, 147 so and with blocks by processor.
// Threads that read their blocks before their turn to gather wait 8 in place of 30 us a batch of 26 lists of 20 ids (of
// 690 us on two Zen 5 cores), but find the records when they are out of the cache: 0 to 3 % slower in all.
size_t RecordFile::BlockBytes() const {
  if (options_->ahead->by_own_threads()) return options_->block_bytes;
  const size_t most = std::min(options_->block_bytes, kOwnBlockBytes);
  if (options_->wanted == nullptr || record_bytes_ == 0) return most;
  const int64_t of_batch = options_->wanted->load(std::memory_order_relaxed);
  const auto wanted = static_cast<size_t>(std::max<int64_t>(1, of_batch / options_->files_in_turns));
  if (wanted > SIZE_MAX / 2 / record_bytes_) return most;
  const size_t bytes = wanted * record_bytes_ + wanted * record_bytes_ / 32;
  const size_t parts = (bytes + most - 1) / most;
  return std::min(most, std::max((bytes + parts - 1) / parts, kLeastBlockBytes));
}

RecordFrame RecordFile::NextFrame(char* data, size_t available) const {
  switch (options_->format) {
    case FileFormat::kLines:
      return NextLine(data, available);
    case FileFormat::kCsv:
      return NextCsvRecord(data, available, options_->csv);
    default:
      return NextRecord(data, available, options_->verify_crc);
  }
}

void RecordFile::Add(RecordBlock* block, const RecordFrame& frame, size_t* at) {
  load_offset_ += frame.next;
  block->records.push_back({*at + frame.start, frame.size, load_offset_});
  *at += frame.next;
}

Status RecordFile::AddLast(RecordBlock* block, size_t at, size_t used) {
  if (options_->format == FileFormat::kTFRecord) return EndOfRecords(load_offset_, used - at);
  char* const rest = block->buffer.data() + at;
  const RecordFrame frame = options_->format == FileFormat::kLines ? LastLine(rest, used - at)
                                                                   : LastCsvRecord(rest, used - at, options_->csv);
  if (frame.kind == RecordFrame::kRecord) Add(block, frame, &at);
  return Status();
}

Status RecordFile::Fill(RecordBlock* block) {
  const auto fail = [&](Status status) {
    block->last = true;
    block->end = std::move(status);
    return Status();
  };
  if (source_ == nullptr) {
    TFB_RETURN_IF_ERROR(options_->open(name_, &source_));
    if (load_offset_ > 0) {
      // A compressed file that has changed since its place was saved: cut before that place, it ends there.
      Status status = source_->Skip(load_offset_);
      if (!status.ok()) return fail(status.code() == ByteSource::kOutOfRange ? Status() : std::move(status));
    }
  }
  size_t used = 0;
  size_t room = std::max(BlockBytes(), rest_size_);
  if (!block->buffer.Grow(room, 0)) {
    return fail({StatusCode::kResourceExhausted, options_->op + ": no memory for a block of " + name_});
  }
  if (rest_size_ > 0) std::memcpy(block->buffer.data(), previous_->buffer.data() + rest_start_, rest_size_);
  used = rest_size_;
  size_t at = 0;
  while (true) {
    size_t got = 0;
    Status read;
    {
      ReadAhead::Watch watch(options_->ahead);
      read = source_->Read(room - used, block->buffer.data() + used, &got);
    }
    used += got;
    RecordFrame frame;
    while (true) {
      frame = NextFrame(block->buffer.data() + at, used - at);
      if (frame.kind != RecordFrame::kRecord) break;
      Add(block, frame, &at);
    }
    if (frame.kind == RecordFrame::kCorrupt) return fail(InFile(CorruptRecord(load_offset_)));
    if (read.code() == ByteSource::kOutOfRange) return fail(InFile(AddLast(block, at, used)));
    if (!read.ok()) return fail(read);
    if (!block->records.empty()) break;
    // A record longer than the block. The buffer doubles as bytes arrive, so a length that lies costs no memory.
    room = std::min(frame.needed, 2 * std::max(used, options_->block_bytes));
    if (!block->buffer.Grow(room, used)) {
      return fail({StatusCode::kResourceExhausted, options_->op + ": no memory for " + std::to_string(room) +
                                                       " bytes of the record at byte " + std::to_string(load_offset_) +
                                                       " of " + name_});
    }
  }
  const size_t bytes = at / block->records.size();
  record_bytes_ = record_bytes_ == 0 ? bytes : (3 * record_bytes_ + bytes) / 4;
  rest_start_ = at;
  rest_size_ = used - at;
  return Status();
}

Status RecordFile::WaitForBlock() {
  std::unique_lock<std::mutex> lock(mutex_);
  open_error_ = Status();  // Of the call before, or from before this file's turn: it may be there by now.
  ScheduleLoad();
  while (ready_.empty() && open_error_.ok()) {
    if (options_->cancelled->load()) return Status(ByteSource::kCancelled, "Iterator was cancelled");
    // The thread that was asked may still sleep, or wait for a processor, perhaps this one.
    if (!loading_ && MayLoad()) {
      LoadBlock(&lock);
      continue;
    }
    // Whoever cancels does not know of this wait; a tenth of a second is short enough.
    changed_.wait_for(lock, std::chrono::milliseconds(100));
  }
  if (ready_.empty()) return open_error_;
  block_ = std::move(ready_.front());
  ready_.pop_front();
  next_record_ = 0;
  ScheduleLoad();
  return Status();
}

Status RecordFile::Next(Record* record, bool* end) {
  *end = false;
  while (!ended_) {
    if (block_ != nullptr && next_record_ < block_->records.size()) {
      const RecordBlock::Place& place = block_->records[next_record_++];
      if (header_records_ > 0) {
        --header_records_;
        continue;
      }
      record->data = block_->buffer.data() + place.start;
      record->size = place.size;
      record->block = &block_;
      record->owned.reset();
      offset_ = place.next_in_file;
      return Status();
    }
    if (block_ != nullptr && block_->last) {
      const Status status = block_->end;
      ended_ = status.ok() || options_->format == FileFormat::kTFRecord;
      if (ended_) block_.reset();
      if (!status.ok()) return status;
      if (header_records_ > 0 && options_->format == FileFormat::kCsv) {
        header_records_ = 0;  // Said once, as TensorFlow does.
        return InFile({StatusCode::kInvalidArgument, "the file has no header"});
      }
    } else {
      TFB_RETURN_IF_ERROR(WaitForBlock());
    }
  }
  *end = true;
  return Status();
}

}  // namespace tf_booster
