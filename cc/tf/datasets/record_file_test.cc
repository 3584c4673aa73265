// Files are read the same whoever reads ahead: threads of their own, threads that parse, nobody.
#include "cc/tf/datasets/record_file.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/tf/datasets/read_ahead.h"
#include "tensorflow/core/lib/io/record_writer.h"

namespace tf_booster {
namespace {

constexpr size_t kRecords = 4000;

std::string Bytes(size_t i) { return std::string(i % 97 == 5 ? 3000 : i % 300, static_cast<char>('a' + i % 26)); }

class File {
 public:
  File() {
    EXPECT_TRUE(tensorflow::Env::Default()->LocalTempFilename(&name_));
    std::unique_ptr<tensorflow::WritableFile> file;
    EXPECT_TRUE(tensorflow::Env::Default()->NewWritableFile(name_, &file).ok());
    tensorflow::io::RecordWriter writer(file.get());
    for (size_t i = 0; i < kRecords; ++i) EXPECT_TRUE(writer.WriteRecord(Bytes(i)).ok());
    EXPECT_TRUE(writer.Close().ok() && file->Close().ok());
  }
  ~File() { tensorflow::Env::Default()->DeleteFile(name_).IgnoreError(); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

struct Reader {
  Reader(int processors, double parsers) : pool(tensorflow::Env::Default(), "read", 2), ahead(processors) {
    ahead.SetParsers(parsers);
    options.env = tensorflow::Env::Default();
    options.block_bytes = 1000;  // Less than some records.
    options.blocks = std::make_shared<BlockPool>(1 << 20);
    options.threads = &pool;
    options.ahead = &ahead;
    options.cancelled = &cancelled;
  }

  tensorflow::thread::ThreadPool pool;
  ReadAhead ahead;
  std::atomic<bool> cancelled{false};
  ReadOptions options;
};

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
  const File written;
  for (const double parsers : {1.0, 2.0, 3.0}) {
    for (const int processors : {1, 2, 16}) {
      Reader reader(processors, parsers);
      std::atomic<bool> done{false};
      // Another thread that parses.
      std::thread helper([&] {
        while (!done) {
          if (RecordFile* file = reader.ahead.Take()) file->LoadAhead();
          std::this_thread::yield();
        }
      });
      {
        RecordFile file(&reader.options, written.name(), 0);
        file.Start();
        ReadAndCompare(&file, 0, kRecords);
        const uint64_t end_offset = file.offset();
        Record record;
        bool ended = false;
        EXPECT_TRUE(file.Next(&record, &ended).ok() && ended);
        EXPECT_TRUE(end_offset > 0);
      }
      {
        RecordFile file(&reader.options, written.name(), 0);
        ReadAndCompare(&file, 0, kRecords / 2);
        RecordFile rest(&reader.options, written.name(), file.offset());
        ReadAndCompare(&rest, kRecords / 2, kRecords);
      }  // Ends while it is read ahead.
      done = true;
      helper.join();
    }
  }
}

TEST(WhoReadsAhead) {
  const auto by = [](int processors, double parsers) {
    ReadAhead ahead(processors);
    ahead.SetParsers(parsers);
    return ahead.by();
  };
  EXPECT_TRUE(by(1, 1) == ReadAhead::By::kNobody);
  EXPECT_TRUE(by(2, 1) == ReadAhead::By::kOwnThreads);
  EXPECT_TRUE(by(2, 2) == ReadAhead::By::kParsers);
  EXPECT_TRUE(by(1, 2) == ReadAhead::By::kParsers);
  EXPECT_TRUE(by(16, 2) == ReadAhead::By::kOwnThreads);
  EXPECT_TRUE(by(3, 3) == ReadAhead::By::kOwnThreads);
}

TEST(ReadsThatWaitAskForThreads) {
  ReadAhead ahead(1);
  { ReadAhead::Watch watch(&ahead); }
  EXPECT_TRUE(ahead.by() == ReadAhead::By::kNobody);
  {
    ReadAhead::Watch watch(&ahead);
    tensorflow::Env::Default()->SleepForMicroseconds(1000);
  }
  EXPECT_TRUE(ahead.by() == ReadAhead::By::kOwnThreads);
  for (int i = 0; i < 1000; ++i) ReadAhead::Watch watch(&ahead);
  EXPECT_TRUE(ahead.by() == ReadAhead::By::kNobody);
}

TEST(AFileIsTakenOnceOrWithdrawn) {
  const File written;
  Reader reader(2, 2);
  RecordFile file(&reader.options, written.name(), 0);
  EXPECT_TRUE(reader.ahead.Take() == nullptr);
  file.Start();
  file.Start();
  EXPECT_TRUE(reader.ahead.Take() == &file);
  EXPECT_TRUE(reader.ahead.Take() == nullptr);
  EXPECT_TRUE(!reader.ahead.Withdraw(&file));
  file.LoadAhead();
  ReadAndCompare(&file, 0, kRecords);
}

}  // namespace
}  // namespace tf_booster
