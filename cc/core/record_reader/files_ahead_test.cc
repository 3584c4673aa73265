// Files that are read before their turn, and the ends that can come meanwhile: the file is dropped, the reader is
// cancelled, the file is damaged, or was not there when it was opened ahead.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/record_reader/record_file.h"
#include "cc/core/record_reader/testing/memory_files.h"
#include "cc/core/record_reader/testing/reader.h"

namespace tf_booster {
namespace {

constexpr int kRecords = 2000;

std::string Bytes(const std::string& name, int i) { return name + std::to_string(i) + std::string(100, 'x'); }

std::string Content(const std::string& name) {
  std::string content;
  for (int i = 0; i < kRecords; ++i) AppendRecord(Bytes(name, i), &content);
  return content;
}

// Whether the next `n` records are those of `name` from number `begin` on.
bool NextAre(RecordFile* file, const std::string& name, int begin, int n) {
  for (int i = begin; i < begin + n; ++i) {
    Record record;
    bool ended = false;
    if (!file->Next(&record, &ended).ok() || ended) return false;
    if (std::string(record.data, record.size) != Bytes(name, i)) return false;
  }
  return true;
}

Status NextError(RecordFile* file) {
  Record record;
  bool ended = false;
  return file->Next(&record, &ended);
}

bool Ends(RecordFile* file) {
  Record record;
  bool ended = false;
  return file->Next(&record, &ended).ok() && ended;
}

// Reads stop here until it is opened.
class Gate {
 public:
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitForArrival() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return arrived_ > 0; });
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int arrived() {
    std::lock_guard<std::mutex> lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int arrived_ = 0;
};

// Another source with something done before each call.
class WatchedSource final : public ByteSource {
 public:
  WatchedSource(std::unique_ptr<ByteSource> of, std::function<void()> on_read, Status on_skip)
      : of_(std::move(of)), on_read_(std::move(on_read)), on_skip_(std::move(on_skip)) {}
  Status Read(size_t n, char* to, size_t* got) override {
    if (on_read_) on_read_();
    return of_->Read(n, to, got);
  }
  Status Skip(uint64_t offset) override { return on_skip_.ok() ? of_->Skip(offset) : on_skip_; }

 private:
  const std::unique_ptr<ByteSource> of_;
  const std::function<void()> on_read_;
  const Status on_skip_;
};

// Two files, whole ones ahead; reads of "b" stop at `gate`.
struct TwoFiles {
  TwoFiles() {
    files.Add("a", Content("a"));
    files.Add("b", Content("b"));
    reader.options.blocks_ahead = 1000;
    reader.options.open = [this](const std::string& name, std::unique_ptr<ByteSource>* source) {
      std::unique_ptr<ByteSource> of;
      const Status status = files.Open()(name, &of);
      const auto pass = [this] {
        gate.Pass();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // 2.5 s for the file, if nobody stops that.
      };
      *source = std::make_unique<WatchedSource>(std::move(of), name == "b" ? pass : std::function<void()>(), Status());
      return status;
    };
  }
  Gate gate;
  MemoryFiles files;
  Reader reader{files, 16, 1};
};

TEST(AFileDroppedBeforeItsTurnIsReadNoFurther) {
  TwoFiles two;
  RecordFile a(&two.reader.options, "a", 0);
  auto b = std::make_unique<RecordFile>(&two.reader.options, "b", 0);
  a.Start();
  b->Start();
  EXPECT_TRUE(NextAre(&a, "a", 0, kRecords / 2));
  two.gate.WaitForArrival();
  std::atomic<bool> dropped{false};
  std::thread dropper([&] {
    b.reset();
    dropped = true;
  });
  EXPECT_TRUE(NextAre(&a, "a", kRecords / 2, kRecords / 2));
  EXPECT_TRUE(!dropped);  // A read is under way.
  two.gate.Open();
  dropper.join();
  EXPECT_TRUE(two.gate.arrived() < 100);
  EXPECT_TRUE(Ends(&a));
}

TEST(CancelledNothingMoreIsReadAhead) {
  TwoFiles two;
  {
    RecordFile b(&two.reader.options, "b", 0);
    b.Start();
    two.gate.WaitForArrival();
    std::atomic<int> code{0};
    std::thread consumer([&] { code = static_cast<int>(NextError(&b).code()); });
    two.reader.cancelled = true;
    consumer.join();  // Although the read hangs.
    EXPECT_EQ(code.load(), static_cast<int>(ByteSource::kCancelled));
    two.gate.Open();
  }
  EXPECT_EQ(two.gate.arrived(), 1);
}

TEST(WhatIsWrongWithAFileAheadIsToldAtItsPlace) {
  MemoryFiles files;
  files.Add("a", Content("a"));
  const std::string content = Content("b");
  files.Add("cut", content.substr(0, content.size() - 1));
  files.Add("fails", content, content.size() - 1);
  for (const double parsers : {1.0, 2.0, 3.0}) {
    for (const char* name : {"cut", "fails"}) {
      Reader reader(files, 16, parsers);
      reader.options.blocks_ahead = 1000;
      RecordFile a(&reader.options, "a", 0), bad(&reader.options, name, 0), never(&reader.options, name, 0);
      a.Start();
      bad.Start();
      never.Start();
      EXPECT_TRUE(NextAre(&a, "a", 0, kRecords));
      EXPECT_TRUE(Ends(&a));
      EXPECT_TRUE(NextAre(&bad, "b", 0, kRecords - 1));
      EXPECT_TRUE(!NextError(&bad).ok());
      EXPECT_TRUE(Ends(&bad));
    }
  }
}

TEST(AFileThatComesBeforeItsTurnIsRead) {
  MemoryFiles files;
  Reader reader(files, 16, 1);
  std::vector<std::function<void()>> loads;
  reader.options.schedule = [&](std::function<void()> load) { loads.push_back(std::move(load)); };
  RecordFile file(&reader.options, "late", 0);
  file.Start();
  EXPECT_EQ(loads.size(), size_t{1});
  loads[0]();  // Not there.
  files.Add("late", Content("late"));
  EXPECT_TRUE(NextAre(&file, "late", 0, 10));
  for (size_t i = 1; i < loads.size(); ++i) loads[i]();
}

TEST(AFileThatChangedBeforeASavedPlaceEndsOnce) {
  MemoryFiles files;
  files.Add("a", Content("a"));
  for (const bool cut : {true, false}) {
    Reader reader(files, 16, 1);
    reader.options.open = [&](const std::string& name, std::unique_ptr<ByteSource>* source) {
      std::unique_ptr<ByteSource> of;
      const Status status = files.Open()(name, &of);
      const Status skip = cut ? Status(ByteSource::kOutOfRange, "end") : Status(StatusCode::kDataLoss, "inflate");
      *source = std::make_unique<WatchedSource>(std::move(of), nullptr, skip);
      return status;
    };
    RecordFile file(&reader.options, "a", 1000);
    file.Start();
    if (!cut) EXPECT_TRUE(NextError(&file).code() == StatusCode::kDataLoss);
    EXPECT_TRUE(Ends(&file));
  }
}

}  // namespace
}  // namespace tf_booster
