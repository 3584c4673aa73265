#include "cc/core/base/work_spans.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

std::vector<size_t> Walk(WorkSpans* work) {
  std::vector<size_t> pieces;
  WorkSpans::Walker walker(work);
  for (size_t piece; walker.Next(&piece);) pieces.push_back(piece);
  return pieces;
}

TEST(OneThreadAloneGoesThroughAllInOrder) {
  for (size_t spans : {1, 2, 3, 8}) {
    WorkSpans work(5, spans);
    EXPECT_TRUE(Walk(&work) == std::vector<size_t>({0, 1, 2, 3, 4}));
    EXPECT_EQ(Walk(&work).size(), 0u);
  }
}

TEST(EachThreadGoesThroughItsOwnSpan) {
  WorkSpans work(8, 2);
  WorkSpans::Walker a(&work), b(&work);
  size_t piece;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(a.Next(&piece));
    EXPECT_EQ(piece, i);
    EXPECT_TRUE(b.Next(&piece));
    EXPECT_EQ(piece, 4 + i);
  }
  EXPECT_TRUE(!a.Next(&piece));
  EXPECT_TRUE(!b.Next(&piece));
}

TEST(WhoIsDoneTakesTheLatterHalfOfWhatIsLeft) {
  WorkSpans work(8, 2);
  WorkSpans::Walker a(&work), b(&work);
  size_t piece;
  EXPECT_TRUE(a.Next(&piece));  // 0
  EXPECT_TRUE(b.Next(&piece));  // 4; 5, 6, 7 are left.
  for (size_t i : {1, 2, 3, 6, 7, 5}) {
    EXPECT_TRUE(a.Next(&piece));
    EXPECT_EQ(piece, i);
  }
  EXPECT_TRUE(!b.Next(&piece));
}

TEST(ManyThreadsDoEachPieceOnce) {
  for (size_t spans : {1, 3, 4}) {
    WorkSpans work(1000, spans);
    std::vector<std::atomic<int>> done(1000);
    std::vector<std::thread> threads;
    for (int t = 0; t < 5; ++t) {
      threads.emplace_back([&] {
        for (size_t piece : Walk(&work)) ++done[piece];
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(std::all_of(done.begin(), done.end(), [](const auto& times) { return times == 1; }));
  }
}

}  // namespace
}  // namespace tf_booster
