// Every unit of every job is run once, however many jobs, units and lanes there are.
#include "cc/core/gpu/launch.h"

#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/scratch.h"

namespace tf_booster {
namespace gpu {
namespace {

struct CountJob {
  int* counts;
  int64_t units;
};
struct CountUnit {
  TFB_HOST_DEVICE void operator()(const CountJob& job, int64_t unit) const { ++job.counts[unit]; }
};

void ExpectEachOnce(const std::vector<int64_t>& sizes, HostQueue queue) {
  std::vector<std::vector<int>> counts;
  std::vector<CountJob> jobs;
  for (const int64_t size : sizes) counts.emplace_back(size, 0);
  for (auto& c : counts) jobs.push_back({c.data(), static_cast<int64_t>(c.size())});
  ForEachUnit(queue, jobs, CountUnit());
  for (const auto& c : counts) EXPECT_TRUE(c == std::vector<int>(c.size(), 1));
}

TEST(EveryUnitIsRunOnce) {
  for (const int64_t lanes : {1, 7, 256}) {
    for (const int threads : {1, 3}) {
      const HostQueue queue(threads, lanes);
      ExpectEachOnce({}, queue);
      ExpectEachOnce({0}, queue);
      ExpectEachOnce({0, 0, 1, 0, 1023, 1024, 1025, 0, 0}, queue);
      ExpectEachOnce({5000, 0, 3}, queue);
    }
  }
}

TEST(ManyJobsTakeFewLaunches) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 1000; ++i) sizes.push_back(i % 3 == 0 ? 0 : 40 * i % 3001);
  HostQueue queue;
  ExpectEachOnce(sizes, queue);
  const int most = JobsKernel<CountJob, CountUnit>::kMost;
  EXPECT_TRUE(most > 100);
  std::vector<int> counts(most + 1, 0);
  std::vector<CountJob> jobs(most, {nullptr, 0});
  ForEachUnit(queue, jobs, CountUnit());
  EXPECT_EQ(queue.launches(), 0);  // Empty jobs take none.
  for (int i = 0; i < most; ++i) jobs[i] = {&counts[i], 1};
  ForEachUnit(queue, jobs, CountUnit());
  EXPECT_EQ(queue.launches(), 1);
  jobs.push_back({&counts[most], 1});
  ForEachUnit(queue, jobs, CountUnit());
  EXPECT_EQ(queue.launches(), 3);
}

struct Square {
  int64_t* out;
  TFB_HOST_DEVICE void operator()(int64_t unit) const { out[unit] = unit * unit; }
};

TEST(ForEachRunsABodyWithoutJobs) {
  std::vector<int64_t> out(3000, -1);
  HostQueue queue;
  ForEach(queue, 3000, Square{out.data()});
  for (int64_t i = 0; i < 3000; ++i) EXPECT_EQ(out[i], i * i);
  ForEach(queue, 0, Square{nullptr});
}

TEST(ScratchMeasuresBeforeItTakes) {
  Scratch measure(nullptr);
  EXPECT_TRUE(measure.Take<double>(100) == nullptr);
  measure.Take<char>(1);
  EXPECT_EQ(measure.used(), 1024 + 256);
  std::vector<char> memory(measure.used());
  Scratch scratch(memory.data());
  EXPECT_TRUE(reinterpret_cast<char*>(scratch.Take<double>(100)) == memory.data());
  EXPECT_TRUE(scratch.Take<char>(1) == memory.data() + 1024);
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
