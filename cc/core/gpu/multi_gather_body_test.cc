#include "cc/core/gpu/multi_gather_body.h"

#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

// Rows of `row_bytes`, the memory of both sides shifted, and some indices outside.
template <class Index>
struct Gather {
  Array<char> params, out;
  Array<Index> indices;
  GatherJob<Index> job;

  Gather(int64_t rows, int64_t row_bytes, int64_t size, int64_t shift)
      : params(rows * row_bytes + shift), out(size * row_bytes + shift + 16, 'x'), indices(size) {
    for (size_t i = 0; i < params.size(); ++i) params[i] = static_cast<char>(i * 31 + i / 251);
    for (int64_t i = 0; i < size; ++i) indices[i] = static_cast<Index>((i * 37) % (rows + 2) - 1);
    job.indices = indices.data();
    job.size = size;
    job.params = params.data() + shift;
    job.table.rows = rows;
    job.row_bytes = row_bytes;
    job.out = out.data() + shift;
  }

  void Expect() const {
    const int64_t shift = job.out - out.data();
    std::vector<char> want(out.size(), 'x');
    for (int64_t i = 0; i < job.size; ++i) {
      const bool inside = indices[i] >= 0 && indices[i] < job.table.rows;
      for (int64_t b = 0; b < job.row_bytes; ++b) {
        want[shift + i * job.row_bytes + b] = inside ? job.params[indices[i] * job.row_bytes + b] : 0;
      }
    }
    EXPECT_TRUE(std::memcmp(out.data(), want.data(), want.size()) == 0);
  }
};

template <class Index>
void Run(const std::vector<GatherJob<Index>>& jobs) {
#if defined(__CUDACC__)
  EXPECT_TRUE(MultiGatherAsync(jobs, nullptr) == nullptr);
#else
  HostQueue queue(2);
  MultiGather(queue, jobs);
#endif
  WaitForCard();
}

template <class Index>
void Check(int64_t rows, int64_t row_bytes, int64_t size, int64_t shift) {
  const Gather<Index> gather(rows, row_bytes, size, shift);
  Run<Index>({gather.job, GatherJob<Index>()});
  gather.Expect();
}

TEST(RowsOfEverySizeAndAlignment) {
  for (const int64_t row_bytes : {0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 64, 260}) {
    for (const int64_t shift : {0, 1, 2, 4, 8}) {
      Check<int32_t>(50, row_bytes, 333, shift);
      Check<int64_t>(50, row_bytes, 333, shift);
      Check<int64_t>(1, row_bytes, 5, shift);
    }
  }
}

template <class Index>
void CheckMany() {
  std::vector<Gather<Index>> gathers;
  std::vector<GatherJob<Index>> jobs;
  for (int64_t i = 0; i < 150; ++i) gathers.emplace_back(i % 7, i % 5 * 4, i * i % 400, i % 3);
  for (const auto& gather : gathers) jobs.push_back(gather.job);
  Run(jobs);
  for (const auto& gather : gathers) gather.Expect();
}
TEST(MoreTensorsThanALaunchTakes) {
  CheckMany<int32_t>();
  CheckMany<int64_t>();
}

// A table in parts, gathered by a job for each, is the whole one.
template <class Index>
void CheckParts(int64_t rows, int64_t parts, bool mod) {
  constexpr int64_t kRowBytes = 12;
  const Gather<Index> whole(rows, kRowBytes, 333, 0);
  const RowParts table = {parts, rows, mod};
  std::vector<Array<char>> memory;
  for (int64_t p = 0; p < parts; ++p) memory.emplace_back(table.Size(p) * kRowBytes);
  for (int64_t id = 0; id < rows; ++id) {
    const RowParts::Row at = table.RowOf(id);
    std::copy_n(&whole.params[id * kRowBytes], kRowBytes, &memory[at.part][at.row * kRowBytes]);
  }
  std::vector<GatherJob<Index>> jobs(parts, whole.job);
  for (int64_t p = 0; p < parts; ++p) {
    jobs[p].table = table;
    jobs[p].part = p;
    jobs[p].params = memory[p].data();
  }
  Run(jobs);
  whole.Expect();
}
TEST(TablesInParts) {
  for (const bool mod : {false, true}) {
    CheckParts<int32_t>(50, 4, mod);
    CheckParts<int64_t>(48, 4, mod);
    CheckParts<int64_t>(7, 7, mod);
    CheckParts<int32_t>(3, 5, mod);  // Two of them are empty.
  }
}

TEST(NothingToGather) {
  Check<int32_t>(0, 8, 10, 0);  // A Variable without rows: zeros.
  Check<int64_t>(10, 8, 0, 0);
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
