#include "cc/tf/kernels/tf_parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"
#include "tensorflow/core/platform/env.h"

namespace tf_booster {
namespace {

using tensorflow::thread::ThreadPool;

struct Shards {
  std::vector<int> visits;
  std::vector<int64_t> sizes;
  std::set<std::thread::id> threads;
};

Shards RunShards(int num_threads, int64_t total, int64_t cost_ns) {
  ThreadPool pool(tensorflow::Env::Default(), "test", num_threads);
  TfParallelFor parallel_for(&pool);
  Shards shards;
  shards.visits.resize(total);
  std::mutex mutex;
  parallel_for.Run(total, cost_ns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++shards.visits[i];
    std::lock_guard<std::mutex> lock(mutex);
    shards.sizes.push_back(end - begin);
    shards.threads.insert(std::this_thread::get_id());
  });
  return shards;
}

TEST(EveryUnitRunsOnce) {
  for (int num_threads : {1, 2, 5}) {
    for (int64_t total : {0, 1, 2, 3, 7, 999, 100000}) {
      for (int64_t cost_ns : {0, 1, 100, 100000, 1 << 30}) {
        const Shards shards = RunShards(num_threads, total, cost_ns);
        EXPECT_EQ(std::count(shards.visits.begin(), shards.visits.end(), 1), total);
        EXPECT_TRUE(static_cast<int>(shards.sizes.size()) <= 2 * num_threads);
        EXPECT_EQ(shards.sizes.empty(), total == 0);
      }
    }
  }
}

TEST(ShortLoopsStayOnTheCallersThread) {
  const Shards shards = RunShards(4, 9, 10000);
  EXPECT_EQ(shards.sizes.size(), 1u);
  EXPECT_EQ(*shards.threads.begin(), std::this_thread::get_id());
}

TEST(AShortLoopBeginsOnTheCallersThread) {
  ThreadPool pool(tensorflow::Env::Default(), "test", 4);
  TfParallelFor parallel_for(&pool);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> begun{false};
  std::atomic<int> missed{0};
  parallel_for.Run(8, 100000, [&](int64_t, int64_t) {
    if (std::this_thread::get_id() == caller) {
      begun = true;
      return;
    }
    // A thread of the pool keeps its block until the caller has one, too, of more blocks than the pool has threads.
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!begun && std::chrono::steady_clock::now() < enough) std::this_thread::yield();
    if (!begun) ++missed;
  });
  EXPECT_TRUE(begun.load());
  EXPECT_EQ(missed.load(), 0);
}

TEST(LongLoopsAreSharded) {
  EXPECT_EQ(RunShards(4, 1000, 100000).sizes.size(), 8u);
  EXPECT_EQ(RunShards(1, 1000, 100000).sizes.size(), 1u);
  EXPECT_EQ(RunShards(4, 10, 1 << 30).sizes.size(), 5u);
}

TEST(NoShardIsShorterThan50Microseconds) {
  const Shards shards = RunShards(8, 3000, 100);
  EXPECT_EQ(shards.sizes.size(), 6u);
  EXPECT_EQ(*std::min_element(shards.sizes.begin(), shards.sizes.end()), 500);
}

}  // namespace
}  // namespace tf_booster
