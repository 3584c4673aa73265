// The card's copy of columns, run by the host, and, compiled by nvcc, on a card.
#include "cc/core/columns/column_copy_body.h"

#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace {

using gpu::Array;

void Run(const std::vector<gpu::ColumnsJob>& jobs) {
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::CopyColumnsAsync(jobs, nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(3);
  gpu::CopyColumnsOnQueue(queue, jobs);
#endif
}

// Parts of these widths in bytes beside each other, `shift` bytes from the beginning of an array, and apart again.
void JoinAndSplit(int64_t rows, const std::vector<int64_t>& widths, int64_t shift) {
  int64_t wide = 0;
  for (const int64_t width : widths) wide += width;
  std::vector<Array<char>> parts, apart;
  Array<char> joined(rows * wide + shift + 1, 0x55), want(joined);
  std::vector<gpu::ColumnsJob> join, split;
  int64_t first = 0;
  for (const int64_t width : widths) {
    parts.emplace_back(rows * width + 1, 0x55);
    apart.push_back(parts.back());
    for (int64_t i = 0; i < rows * width; ++i) parts.back()[i] = static_cast<char>(i * 7 + first);
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(parts.back().begin() + row * width, width, want.begin() + shift + row * wide + first);
    }
    char* const place = joined.data() + shift + first;
    join.push_back({rows, width, parts.back().data(), width, place, wide});
    split.push_back({rows, width, place, wide, apart.back().data(), width});
    first += width;
  }
  Run(join);
  EXPECT_TRUE(joined == want);
  Run(split);
  EXPECT_TRUE(apart == parts);
}

TEST(CardJoinsAndSplitsColumns) {
  for (const int64_t rows : {0, 1, 7, 300}) {
    JoinAndSplit(rows, {64, 32, 128}, 0);
    JoinAndSplit(rows, {64, 4, 128}, 0);
    JoinAndSplit(rows, {64, 32, 128}, 8);
    JoinAndSplit(rows, {1, 0, 3, 16, 2}, 1);
    JoinAndSplit(rows, std::vector<int64_t>(100, 12), 4);  // More than a launch takes.
  }
}

}  // namespace
}  // namespace tf_booster
