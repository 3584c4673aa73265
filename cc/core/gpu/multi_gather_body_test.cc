#include "cc/core/gpu/multi_gather_body.h"

#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

// Rows of `row_bytes`, the memory of both sides shifted, and some indices outside.
template <class Index>
void Check(int64_t rows, int64_t row_bytes, int64_t size, int64_t shift) {
  std::vector<char> params(rows * row_bytes + shift + 16), out(size * row_bytes + shift + 16, 'x');
  for (size_t i = 0; i < params.size(); ++i) params[i] = static_cast<char>(i * 31 + 7);
  std::vector<Index> indices(size);
  for (int64_t i = 0; i < size; ++i) indices[i] = static_cast<Index>((i * 37) % (rows + 2) - 1);
  GatherJob<Index> job;
  job.indices = indices.data();
  job.size = size;
  job.params = params.data() + shift;
  job.rows = rows;
  job.row_bytes = row_bytes;
  job.out = out.data() + shift;
  HostQueue queue(2);
  MultiGather<HostQueue, Index>(queue, {job, GatherJob<Index>()});
  const std::vector<char> zeros(row_bytes, 0);
  for (int64_t i = 0; i < size; ++i) {
    const bool inside = indices[i] >= 0 && indices[i] < rows;
    const char* want = inside ? params.data() + shift + indices[i] * row_bytes : zeros.data();
    EXPECT_TRUE(row_bytes == 0 || std::memcmp(out.data() + shift + i * row_bytes, want, row_bytes) == 0);
  }
  EXPECT_EQ(out[shift + size * row_bytes], 'x');
}

TEST(RowsOfEverySizeAndAlignment) {
  for (const int64_t row_bytes : {0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 64, 260}) {
    for (const int64_t shift : {0, 1, 2, 4, 8}) {
      Check<int32_t>(50, row_bytes, 333, shift);
      Check<int64_t>(1, row_bytes, 5, shift);
    }
  }
}

TEST(NothingToGather) {
  Check<int32_t>(0, 8, 10, 0);  // A Variable without rows: zeros.
  Check<int64_t>(10, 8, 0, 0);
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
