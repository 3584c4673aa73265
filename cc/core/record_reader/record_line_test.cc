// Files to batches on several threads, as the dataset's iterator puts RecordFile and OrderedLine together: broken off
// by errors, cancelled, saved and restored at random places, taken by several threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/record_reader/ordered_line.h"
#include "cc/core/record_reader/record_file.h"
#include "cc/core/record_reader/testing/memory_files.h"
#include "cc/core/record_reader/testing/reader.h"

namespace tf_booster {
namespace {

constexpr int kFiles = 5, kRecordsOfFile = 400;
constexpr size_t kBatch = 7;

using Parsed = std::vector<std::string>;  // A batch's records, or its error.

std::string Bytes(int file, int i) {
  const std::string name = std::to_string(file) + "/" + std::to_string(i);
  return name + std::string(i % 89 == 5 ? 3000 : i % 100, 'x');
}

std::string NameOf(int file) { return "file" + std::to_string(file); }

// Of file 2 the reader meets an error in the middle.
MemoryFiles MakeFiles() {
  MemoryFiles files;
  for (int f = 0; f < kFiles; ++f) {
    std::string content;
    for (int i = 0; i < kRecordsOfFile; ++i) AppendRecord(Bytes(f, i), &content);
    files.Add(NameOf(f), content, f == 2 ? content.size() / 2 : MemoryFiles::kNoError);
  }
  return files;
}

// Where reading goes on, and what was gathered before that place.
struct State {
  int file = 0;
  uint64_t offset = 0;
  std::vector<Parsed> ahead;
};

class Pipeline {
 public:
  Pipeline(const MemoryFiles& files, int processors, int workers, State state)
      : reader_(files, processors, workers), restored_(std::move(state.ahead)), number_(state.file) {
    reader_.options.cancelled = &line_.cancelled();
    if (processors > 2) reader_.options.blocks_ahead = 100;  // Whole files.
    OpenAhead(state.offset);
    line_.SetWorkers(workers);
    for (int w = 0; w < workers; ++w) threads_.emplace_back([this] { line_.Work(Maker{this}); });
  }
  ~Pipeline() {
    line_.Cancel();
    for (std::thread& thread : threads_) thread.join();
  }

  void Cancel() { line_.Cancel(); }

  // False: the end, or cancelled.
  bool Take(Parsed* parsed) {
    std::shared_ptr<Batch> batch;
    if (line_.Take(&batch, Maker{this}) != Line::Taken::kItem) return false;
    *parsed = std::move(batch->parsed);
    return true;
  }

  State Save() {
    return line_.Hold([this](const std::vector<const Batch*>& batches) {
      State state;
      for (const Batch* batch : batches) state.ahead.push_back(Parse(*batch));
      state.ahead.insert(state.ahead.end(), restored_.begin() + next_restored_, restored_.end());
      state.file = number_;
      state.offset = files_.empty() ? 0 : files_.front()->offset();
      return state;
    });
  }

 private:
  struct Batch {
    std::vector<Record> records;
    std::vector<std::shared_ptr<RecordBlock>> blocks;
    Parsed given;  // In place of records: of a restored batch, or an error.
    Parsed parsed;
  };
  using Line = OrderedLine<Batch>;
  struct Maker {
    Pipeline* pipeline;

    Begun Begin(Batch* batch) { return pipeline->Gather(batch); }
    void Finish(Batch* batch) { batch->parsed = Parse(*batch); }
    void Stop() {}
    void Start() {}
  };

  // The present file, read on from `offset`, and two more.
  void OpenAhead(uint64_t offset) {
    while (files_.size() < 3 && number_ + static_cast<int>(files_.size()) < kFiles) {
      const int number = number_ + static_cast<int>(files_.size());
      files_.push_back(std::make_unique<RecordFile>(&reader_.options, NameOf(number), number == number_ ? offset : 0));
      files_.back()->Start();
    }
  }

  Begun Gather(Batch* batch) {
    if (next_restored_ < restored_.size()) {
      batch->given = restored_[next_restored_++];
      return Begun::kToFinish;
    }
    while (number_ < kFiles && batch->records.size() < kBatch) {
      Record record;
      bool ended = false;
      const Status status = files_.front()->Next(&record, &ended);
      if (!status.ok()) {
        batch->records.clear();
        batch->given = {status.message()};
        return Begun::kToFinish;
      }
      if (ended) {
        files_.pop_front();
        ++number_;
        OpenAhead(0);
        continue;
      }
      batch->blocks.push_back(*record.block);
      record.block = nullptr;
      batch->records.push_back(std::move(record));
    }
    return batch->records.empty() ? Begun::kEnd : Begun::kToFinish;
  }

  static Parsed Parse(const Batch& batch) {
    Parsed parsed = batch.given;
    for (const Record& record : batch.records) parsed.emplace_back(record.data, record.size);
    return parsed;
  }

  Line line_{/*in_order=*/true};
  Reader reader_;
  const std::vector<Parsed> restored_;
  size_t next_restored_ = 0;
  int number_;
  std::deque<std::unique_ptr<RecordFile>> files_;  // From number_ on.
  std::vector<std::thread> threads_;
};

std::vector<Parsed> TakeAll(Pipeline* pipeline) {
  std::vector<Parsed> all;
  Parsed parsed;
  while (pipeline->Take(&parsed)) all.push_back(parsed);
  return all;
}

// By a loop on one thread.
const std::vector<Parsed>& Expected() {
  static const std::vector<Parsed> expected = [] {
    std::vector<Parsed> batches;
    Parsed batch;
    uint64_t bytes = 0, half = 0;
    for (int i = 0; i < kRecordsOfFile; ++i) half += Bytes(2, i).size() + 16;
    half /= 2;
    for (int f = 0; f < kFiles; ++f) {
      for (int i = 0; i < kRecordsOfFile; ++i) {
        if (f == 2 && (bytes += Bytes(f, i).size() + 16) > half) {
          batch = {};  // Gone with the error.
          batches.push_back({"the disk is gone"});
          break;
        }
        batch.push_back(Bytes(f, i));
        if (batch.size() < kBatch) continue;
        batches.push_back(batch);
        batch = {};
      }
    }
    if (!batch.empty()) batches.push_back(batch);
    return batches;
  }();
  return expected;
}

TEST(BatchesAreThoseOfOneThreadWhoeverReads) {
  const MemoryFiles files = MakeFiles();
  for (const int workers : {1, 2, 4}) {
    for (const int processors : {1, 2, 16}) {
      Pipeline pipeline(files, processors, workers, State());
      EXPECT_TRUE(TakeAll(&pipeline) == Expected());
    }
  }
}

TEST(ARestoredPipelineGoesOnWhereItWasSaved) {
  const MemoryFiles files = MakeFiles();
  std::mt19937 random(2);
  for (int round = 0; round < 12; ++round) {
    const int workers = 1 + round % 3, processors = 1 + round % 2;
    std::vector<Parsed> all;
    State state;
    // Saved again and again, so that what was restored is saved too.
    for (bool end = false; !end;) {
      Pipeline pipeline(files, processors, workers, state);
      Parsed parsed;
      for (int i = random() % 200; i > 0 && !end; --i) {
        end = !pipeline.Take(&parsed);
        if (!end) all.push_back(parsed);
      }
      state = pipeline.Save();
    }
    EXPECT_TRUE(all == Expected());
  }
}

TEST(SavingDisturbsNobody) {
  const MemoryFiles files = MakeFiles();
  Pipeline pipeline(files, 2, 2, State());
  std::atomic<bool> done{false};
  std::thread saver([&] {
    while (!done) {
      const State state = pipeline.Save();
      for (const Parsed& batch : state.ahead) {
        EXPECT_TRUE(std::find(Expected().begin(), Expected().end(), batch) != Expected().end());
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  std::vector<std::vector<Parsed>> taken(2);
  std::vector<std::thread> consumers;
  for (auto& mine : taken) consumers.emplace_back([&mine, &pipeline] { mine = TakeAll(&pipeline); });
  for (std::thread& consumer : consumers) consumer.join();
  done = true;
  saver.join();
  EXPECT_EQ(taken[0].size() + taken[1].size(), Expected().size());
}

TEST(CancelledInTheMiddleEverythingEnds) {
  const MemoryFiles files = MakeFiles();
  for (int round = 0; round < 20; ++round) {
    Pipeline pipeline(files, 1 + round % 3, 1 + round % 4, State());
    std::vector<Parsed> taken;
    std::thread consumer([&] { taken = TakeAll(&pipeline); });
    std::this_thread::sleep_for(std::chrono::microseconds(round * 70));
    pipeline.Cancel();
    consumer.join();
    EXPECT_TRUE(taken.size() <= Expected().size());
    EXPECT_TRUE(std::equal(taken.begin(), taken.end(), Expected().begin()));
  }
}

}  // namespace
}  // namespace tf_booster
