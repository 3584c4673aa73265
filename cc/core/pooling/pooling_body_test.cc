// The bodies of the GPU's pooling, run on the host, against the CPU's pooling: the same bits.
#include "cc/core/pooling/pooling_body.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/pooling/testing/random_lookup.h"

namespace tf_booster {
namespace gpu {
namespace {

template <class T>
using Lookup = testing::RandomLookup<T>;

// One lookup alone; a lookup cannot be copied.
template <class T>
std::vector<Lookup<T>> Only(int seed, int64_t rows, int64_t longest, int64_t distinct, int64_t dim) {
  std::vector<Lookup<T>> lookups;
  lookups.emplace_back(seed, rows, longest, distinct, dim);
  return lookups;
}

template <class T>
std::vector<Array<T>> OnCpu(const std::vector<Lookup<T>>& lookups, Combiner combiner, bool weighted, bool zeroed,
                            bool gradient) {
  std::vector<Array<T>> results;
  SerialFor serial;
  for (const auto& lookup : lookups) {
    const PoolingSegments s = lookup.Segments(combiner, weighted, zeroed);
    results.emplace_back((gradient ? s.distinct : s.rows) * s.dim, T(-7));
    if (gradient) {
      PoolGradient<T>({{s, lookup.upstream.data(), results.back().data()}}, serial);
    } else {
      Pool<T>({{s, lookup.embeddings.data(), results.back().data()}}, serial);
    }
  }
  return results;
}

template <class T>
void OnHost(const std::vector<PoolJob<T>>& jobs, bool gradient, int threads) {
  HostQueue queue(threads);
  if (!gradient) return PoolOnQueue(queue, jobs);
  Scratch measure(nullptr);
  PoolGradientOnQueue<HostQueue>(nullptr, jobs, &measure);
  std::vector<char> memory(measure.used() + 1, 0x55);
  Scratch scratch(memory.data());
  PoolGradientOnQueue(&queue, jobs, &scratch);
  EXPECT_EQ(scratch.used(), measure.used());
}

#if defined(__CUDACC__)
constexpr int kUsual = 0;

template <class T>
void OnCard(const std::vector<PoolJob<T>>& jobs, bool gradient) {
  Array<char> scratch(gradient ? PoolGradientScratchBytes(jobs) : 0, 0x55);
  const char* const error = gradient ? PoolGradientAsync(jobs, scratch.data(), nullptr) : PoolAsync(jobs, nullptr);
  EXPECT_TRUE(error == nullptr);
  WaitForCard();
}
#else
constexpr int kUsual = 2;

template <class T>
void OnCard(const std::vector<PoolJob<T>>&, bool) {}
#endif

// On so many threads of the host; 0: on a card.
template <class T>
std::vector<Array<T>> OnQueue(const std::vector<Lookup<T>>& lookups, Combiner combiner, bool weighted, bool zeroed,
                              bool gradient, int threads = kUsual) {
  std::vector<Array<T>> results;
  std::vector<PoolJob<T>> jobs;
  for (const auto& lookup : lookups) {
    PoolJob<T> job;
    job.segments = lookup.Segments(combiner, weighted, zeroed);
    job.ids = static_cast<int64_t>(lookup.idx.size());
    results.emplace_back((gradient ? job.segments.distinct : job.segments.rows) * job.segments.dim, T(-7));
    job.in = gradient ? lookup.upstream.data() : lookup.embeddings.data();
    jobs.push_back(job);
  }
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].out = results[i].data();
  threads == 0 ? OnCard(jobs, gradient) : OnHost(jobs, gradient, threads);
  return results;
}

template <class T>
void ExpectCpusBits(const std::vector<Lookup<T>>& lookups, bool gradient) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    for (const bool weighted : {false, true}) {
      for (const bool zeroed : {false, true}) {
        const auto want = OnCpu(lookups, combiner, weighted, zeroed, gradient);
        const auto got = OnQueue(lookups, combiner, weighted, zeroed, gradient);
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_TRUE(want[i].empty() || std::memcmp(want[i].data(), got[i].data(), want[i].size() * sizeof(T)) == 0);
        }
      }
    }
  }
}

template <class T>
void CheckAll() {
  std::vector<Lookup<T>> lookups;
  for (const int64_t dim : {1, 3, 8, 16, 70}) lookups.emplace_back(static_cast<int>(dim), 40, 30, 250, dim);
  lookups.emplace_back(1, 300, 1, 500, 7);
  lookups.emplace_back(2, 0, 0, 3, 4);   // No rows.
  lookups.emplace_back(3, 10, 0, 3, 4);  // No ids.
  lookups.emplace_back(4, 5, 20, 1000, 0);
  ExpectCpusBits(lookups, false);
  ExpectCpusBits(lookups, true);
  ExpectCpusBits(Only<T>(5, 4, 3000, 500, 9), false);  // Long rows.
  std::vector<Lookup<T>> many;                         // More than a launch takes.
  for (int i = 0; i < 80; ++i) many.emplace_back(i, i % 6, i % 4, 5, i % 3);
  ExpectCpusBits(many, false);
  ExpectCpusBits(many, true);
}

TEST(FloatsAreTheCpus) { CheckAll<float>(); }
TEST(DoublesAreTheCpus) { CheckAll<double>(); }

template <class T>
void CheckFrequent(bool weighted, T error) {
  const auto lookups = Only<T>(6, 900, 20, 3, 5);
  const auto want = OnCpu(lookups, Combiner::kMean, weighted, false, true);
  const auto got = OnQueue(lookups, Combiner::kMean, weighted, false, true, 1);
  for (size_t i = 0; i < want[0].size(); ++i) EXPECT_TRUE(std::abs(want[0][i] - got[0][i]) < error);
  EXPECT_TRUE(got == OnQueue(lookups, Combiner::kMean, weighted, false, true, 4));
  EXPECT_TRUE(got == OnQueue(lookups, Combiner::kMean, weighted, false, true));
}
TEST(FrequentEmbeddingsGetTheGradientOfTheCpuUpToRounding) {
  for (const bool weighted : {false, true}) {
    CheckFrequent<double>(weighted, 1e-9);
    CheckFrequent<float>(weighted, 1e-2f);
  }
}

TEST(WeightsThatSumToZeroGiveZeros) {
  auto lookups = Only<float>(4, 1, 1, 1, 3);
  lookups[0].splits = {0, 2};
  lookups[0].idx = {0, 0};
  lookups[0].weights = {1.0f, -1.0f};
  EXPECT_TRUE((OnQueue(lookups, Combiner::kMean, true, false, false)[0] == Array<float>{0, 0, 0}));
}

// The card cannot refuse them, but must not read or write outside: AddressSanitizer looks.
TEST(SegmentsThatDoNotFitStayInside) {
  auto lookups = Only<float>(8, 20, 9, 12, 6);
  auto& lookup = lookups[0];
  for (size_t i = 0; i < lookup.idx.size(); i += 3) lookup.idx[i] = i % 2 == 0 ? -5 : 1 << 30;
  lookup.splits[4] = -9;
  lookup.splits[7] = 1 << 29;
  lookup.splits.back() = 1 << 28;
  for (const bool weighted : {false, true}) {
    for (const bool gradient : {false, true}) OnQueue(lookups, Combiner::kSqrtN, weighted, true, gradient);
  }
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
