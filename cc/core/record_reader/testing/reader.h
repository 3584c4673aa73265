// What RecordFiles of a test have in common: threads that read, blocks, and who reads ahead.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_READER_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_READER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/record_reader/read_ahead.h"
#include "cc/core/record_reader/record_file.h"
#include "cc/core/record_reader/testing/memory_files.h"

namespace tf_booster {

struct Reader {
  Reader(const MemoryFiles& files, int processors, double parsers) : ahead(processors) {
    ahead.SetParsers(parsers);
    options.open = files.Open();
    options.block_bytes = 1000;  // Less than some records.
    options.blocks = std::make_shared<BlockPool>(1 << 20);
    options.schedule = [this](std::function<void()> load) {
      std::lock_guard<std::mutex> lock(mutex);
      threads.emplace_back(std::move(load));
    };
    options.ahead = &ahead;
    options.cancelled = &cancelled;
    options.op = "Read";
  }
  ~Reader() {
    for (std::thread& thread : threads) thread.join();
  }

  ReadAhead ahead;
  std::atomic<bool> cancelled{false};
  ReadOptions options;
  std::mutex mutex;
  std::vector<std::thread> threads;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_READER_H_
