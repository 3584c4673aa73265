#include "cc/core/base/shared_loop.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

TEST(EveryUnitRunsOnceHoweverManyHelp) {
  for (int helpers : {0, 1, 3}) {
    for (int64_t total : {1, 2, 7, 1000}) {
      for (int64_t block : {1, 3, 1000}) {
        std::vector<int> visits(total);
        auto body = [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++visits[i];
        };
        auto loop = std::make_shared<SharedLoop>(total, block, body);
        std::vector<std::thread> threads;
        for (int h = 0; h < helpers; ++h) threads.emplace_back([loop] { loop->Help([] {}); });
        loop->RunAndWait();
        EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), total);
        for (std::thread& thread : threads) thread.join();
      }
    }
  }
}

TEST(NobodyWaitsForAHelperThatComesLate) {
  int64_t calls = 0;
  std::shared_ptr<SharedLoop> loop;
  {
    auto body = [&](int64_t begin, int64_t end) { calls += end - begin; };
    loop = std::make_shared<SharedLoop>(100, 10, body);
    loop->RunAndWait();
  }
  bool begun = false;
  loop->Help([&] { begun = true; });  // The body is gone.
  EXPECT_EQ(calls, 100);
  EXPECT_TRUE(!begun);
}

TEST(TheCallerWaitsForWhatAHelperHasBegun) {
  std::atomic<bool> begun{false};
  std::atomic<int> done{0};
  const auto caller = std::this_thread::get_id();
  auto body = [&](int64_t, int64_t) {
    if (std::this_thread::get_id() == caller) {
      while (!begun) std::this_thread::yield();
    } else {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ++done;
  };
  auto loop = std::make_shared<SharedLoop>(2, 1, body);
  std::thread helper([loop] { loop->Help([] {}); });
  loop->RunAndWait();
  EXPECT_EQ(done.load(), 2);
  helper.join();
}

}  // namespace
}  // namespace tf_booster
