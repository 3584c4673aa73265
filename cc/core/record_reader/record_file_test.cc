// Files are read the same whoever reads ahead: threads of their own, threads that parse, nobody.
#include "cc/core/record_reader/record_file.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/record_reader/read_ahead.h"
#include "cc/core/record_reader/testing/memory_files.h"
#include "cc/core/record_reader/testing/reader.h"

namespace tf_booster {
namespace {

constexpr size_t kRecords = 4000;

std::string Bytes(size_t i) { return std::string(i % 97 == 5 ? 3000 : i % 300, static_cast<char>('a' + i % 26)); }

MemoryFiles WrittenFile() {
  std::string content;
  for (size_t i = 0; i < kRecords; ++i) AppendRecord(Bytes(i), &content);
  MemoryFiles files;
  files.Add("file", std::move(content));
  return files;
}

void ReadAndCompare(RecordFile* file, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    Record record;
    bool ended = true;
    EXPECT_TRUE(file->Next(&record, &ended).ok());
    EXPECT_TRUE(!ended);
    EXPECT_TRUE(std::string(record.data, record.size) == Bytes(i));
  }
}

TEST(AllRecordsComeWhoeverReadsAhead) {
  const MemoryFiles files = WrittenFile();
  for (const double parsers : {1.0, 2.0, 3.0}) {
    for (const int processors : {1, 2, 16}) {
      Reader reader(files, processors, parsers);
      {
        RecordFile file(&reader.options, "file", 0);
        file.Start();
        ReadAndCompare(&file, 0, kRecords);
        const uint64_t end_offset = file.offset();
        Record record;
        bool ended = false;
        EXPECT_TRUE(file.Next(&record, &ended).ok() && ended);
        EXPECT_TRUE(end_offset > 0);
      }
      {
        RecordFile file(&reader.options, "file", 0);
        ReadAndCompare(&file, 0, kRecords / 2);
        RecordFile rest(&reader.options, "file", file.offset());
        ReadAndCompare(&rest, kRecords / 2, kRecords);
      }  // Ends while it is read ahead.
    }
  }
}

TEST(WhoReadsAhead) {
  const auto by_own_threads = [](int processors, double parsers, bool uncompress = false) {
    ReadAhead ahead(processors, uncompress);
    ahead.SetParsers(parsers);
    return ahead.by_own_threads();
  };
  EXPECT_TRUE(!by_own_threads(1, 1));
  EXPECT_TRUE(by_own_threads(2, 1));
  EXPECT_TRUE(!by_own_threads(2, 2));
  EXPECT_TRUE(!by_own_threads(1, 2));
  EXPECT_TRUE(by_own_threads(16, 2));
  EXPECT_TRUE(by_own_threads(3, 3));
  EXPECT_TRUE(by_own_threads(2, 2, true));
  EXPECT_TRUE(!by_own_threads(1, 1, true));
}

TEST(ReadsThatWaitAskForThreads) {
  ReadAhead ahead(1);
  { ReadAhead::Watch watch(&ahead); }
  EXPECT_TRUE(!ahead.by_own_threads());
  {
    ReadAhead::Watch watch(&ahead);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(ahead.by_own_threads());
  for (int i = 0; i < 1000; ++i) ReadAhead::Watch watch(&ahead);
  EXPECT_TRUE(!ahead.by_own_threads());
}

struct Reads {
  int calls = 0;
  size_t bytes = 0;
};

// Counts the reads of another source.
class CountingSource final : public ByteSource {
 public:
  CountingSource(std::unique_ptr<ByteSource> of, Reads* reads) : of_(std::move(of)), reads_(reads) {}
  Status Read(size_t n, char* to, size_t* got) override {
    const Status status = of_->Read(n, to, got);
    ++reads_->calls;
    reads_->bytes += *got;
    return status;
  }
  Status Skip(uint64_t offset) override { return of_->Skip(offset); }

 private:
  const std::unique_ptr<ByteSource> of_;
  Reads* const reads_;
};

OpenByteSource OpenCounted(const MemoryFiles& files, Reads* reads) {
  return [open = files.Open(), reads](const std::string& name, std::unique_ptr<ByteSource>* source) {
    std::unique_ptr<ByteSource> of;
    const Status status = open(name, &of);
    *source = std::make_unique<CountingSource>(std::move(of), reads);
    return status;
  };
}

TEST(BlocksAheadAreBounded) {
  std::string content;
  for (int i = 0; i < 1000; ++i) AppendRecord(std::string(100, 'x'), &content);
  MemoryFiles files;
  files.Add("file", std::move(content));
  for (const int blocks : {4, 20}) {
    Reader reader(files, 16, 1);
    std::vector<std::function<void()>> loads;
    Reads reads;
    reader.options.schedule = [&](std::function<void()> load) { loads.push_back(std::move(load)); };
    reader.options.open = OpenCounted(files, &reads);
    reader.options.blocks_ahead = blocks;
    RecordFile file(&reader.options, "file", 0);
    file.Start();
    EXPECT_EQ(loads.size(), size_t{1});
    loads[0]();
    EXPECT_EQ(reads.calls, blocks);
    // Half of them are taken before a thread is asked for more.
    Record record;
    bool ended = false;
    while (loads.size() == 1 && !ended) EXPECT_TRUE(file.Next(&record, &ended).ok());
    EXPECT_EQ(loads.size(), size_t{2});
    loads.back()();
    EXPECT_EQ(reads.calls, blocks + blocks / 2);
  }
}

// Batches of 400 records are read each by itself: in two blocks, the last of which ends soon behind it.
TEST(BlocksEndWithTheBatch) {
  constexpr size_t kBatch = 400, kFramed = 1016;
  std::string content;
  for (size_t i = 0; i < 21 * kBatch; ++i) AppendRecord(std::string(kFramed - 16, 'x'), &content);
  MemoryFiles files;
  files.Add("file", std::move(content));
  for (const int in_turns : {1, 2}) {
    Reader reader(files, 2, 2);
    Reads reads;
    std::atomic<int64_t> wanted{0};
    reader.options.open = OpenCounted(files, &reads);
    reader.options.block_bytes = 1 << 20;
    reader.options.wanted = &wanted;
    reader.options.files_in_turns = in_turns;
    RecordFile file(&reader.options, "file", 0);
    for (size_t batch = 0; batch < 20; ++batch) {
      const int calls = reads.calls;
      for (size_t i = 0; i < kBatch; ++i) {
        wanted = static_cast<int64_t>((kBatch - i) * in_turns);
        Record record;
        bool ended = true;
        EXPECT_TRUE(file.Next(&record, &ended).ok() && !ended);
      }
      if (batch == 0) continue;  // Nothing is known of the first block's records.
      EXPECT_TRUE(reads.bytes - (batch + 1) * kBatch * kFramed < kBatch * kFramed / 8);
      EXPECT_EQ(reads.calls, calls + 2);
    }
  }
}

TEST(ErrorsNameTheFileAndEndIt) {
  std::string content;
  for (size_t i = 0; i < 100; ++i) AppendRecord(Bytes(i), &content);
  std::string damaged = content;
  damaged[damaged.size() - 1] ^= 1;
  MemoryFiles files;
  files.Add("damaged", damaged);
  files.Add("cut", content.substr(0, content.size() - 1));
  files.Add("fails", content, content.size() - 1);
  for (const double parsers : {1.0, 2.0, 3.0}) {
    Reader reader(files, 2, parsers);
    for (const char* name : {"damaged", "cut", "fails"}) {
      RecordFile file(&reader.options, name, 0);
      ReadAndCompare(&file, 0, 99);
      Record record;
      bool ended = false;
      const Status status = file.Next(&record, &ended);
      const bool fails = std::string(name) == "fails";
      EXPECT_TRUE(status.code() == (fails ? StatusCode::kInternal : StatusCode::kDataLoss));
      EXPECT_TRUE(fails ? status.message() == "the disk is gone" : status.message().find(name) != std::string::npos);
      EXPECT_TRUE(file.Next(&record, &ended).ok() && ended);
    }
    RecordFile missing(&reader.options, "missing", 0);
    Record record;
    bool ended = false;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(missing.Next(&record, &ended).code() == StatusCode::kNotFound);
  }
}

}  // namespace
}  // namespace tf_booster
