#include "cc/core/progress/collective_progress.h"

#include <thread>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

TEST(CountsByName) {
  ++ProgressOf("b")->entered;
  ++ProgressOf("a with spaces")->entered;
  ++ProgressOf("b")->entered;
  ++ProgressOf("b")->left;
  EXPECT_EQ(ProgressText(), "1 0 a with spaces\n2 1 b\n");
  EXPECT_EQ(ProgressOf("b"), ProgressOf("b"));
}

TEST(ThreadsCountAndRead) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) {
        ++ProgressOf("c")->entered;
        ProgressText();
        ++ProgressOf("c")->left;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ProgressOf("c")->entered.load(), 4000);
  EXPECT_EQ(ProgressOf("c")->left.load(), 4000);
}

}  // namespace
}  // namespace tf_booster
