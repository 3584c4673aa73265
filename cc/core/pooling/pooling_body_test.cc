// The bodies of the GPU's pooling, run on the host, against the CPU's pooling: the same bits.
#include "cc/core/pooling/pooling_gradient_body.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/testing/duplicates.h"
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

// Elements by which inputs and outputs are off a multiple of 16 bytes, and by which rows of what is pooled, or of its
// gradient, are apart.
struct Shift {
  int64_t in = 0, out = 0, gap = 0;
};

// Rows of `dim` behind the first `shift` elements, now with a gap behind each.
template <class T>
Array<T> WithGaps(const Array<T>& rows, int64_t shift, int64_t dim, int64_t gap) {
  Array<T> wide(rows.begin(), rows.begin() + shift);
  for (int64_t at = shift; dim > 0 && at < static_cast<int64_t>(rows.size()); at += dim) {
    wide.insert(wide.end(), rows.begin() + at, rows.begin() + at + dim);
    wide.insert(wide.end(), gap, T(-7));
  }
  return wide;
}
template <class T>
Array<T> WithoutGaps(const Array<T>& wide, int64_t shift, int64_t dim, int64_t gap) {
  Array<T> rows(wide.begin(), wide.begin() + shift);
  for (int64_t at = shift; dim > 0 && at < static_cast<int64_t>(wide.size()); at += dim + gap) {
    rows.insert(rows.end(), wide.begin() + at, wide.begin() + at + dim);
    for (int64_t i = dim; i < dim + gap; ++i) EXPECT_TRUE(wide[at + i] == T(-7));
  }
  return rows;
}

// On so many threads of the host; 0: on a card.
template <class T>
std::vector<Array<T>> OnQueue(const std::vector<Lookup<T>>& lookups, Combiner combiner, bool weighted, bool zeroed,
                              bool gradient, int threads = kUsual, Shift shift = {}) {
  std::vector<Array<T>> results, inputs;
  std::vector<PoolJob<T>> jobs;
  for (const auto& lookup : lookups) {
    PoolJob<T> job;
    job.segments = lookup.Segments(combiner, weighted, zeroed);
    job.ids = static_cast<int64_t>(lookup.idx.size());
    results.emplace_back((gradient ? job.segments.distinct : job.segments.rows) * job.segments.dim + shift.out, T(-7));
    inputs.push_back(gradient ? lookup.upstream : lookup.embeddings);
    inputs.back().insert(inputs.back().begin(), shift.in, T(-7));
    jobs.push_back(job);
  }
  auto& pooled = gradient ? inputs : results;
  const int64_t pooled_shift = gradient ? shift.in : shift.out;
  for (size_t i = 0; i < jobs.size() && shift.gap > 0; ++i) {
    pooled[i] = WithGaps(pooled[i], pooled_shift, jobs[i].segments.dim, shift.gap);
    jobs[i].pooled_step = jobs[i].segments.dim + shift.gap;
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].in = inputs[i].data() + shift.in;
    jobs[i].out = results[i].data() + shift.out;
  }
  threads == 0 ? OnCard(jobs, gradient) : OnHost(jobs, gradient, threads);
  for (size_t i = 0; i < jobs.size() && shift.gap > 0; ++i) {
    pooled[i] = WithoutGaps(pooled[i], pooled_shift, jobs[i].segments.dim, shift.gap);
  }
  for (auto& result : results) {
    for (int64_t i = 0; i < shift.out; ++i) EXPECT_TRUE(result[i] == T(-7));
    result.erase(result.begin(), result.begin() + shift.out);
  }
  return results;
}

template <class T>
void ExpectCpusBits(const std::vector<Lookup<T>>& lookups, bool gradient, Shift shift = {}) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    for (const bool weighted : {false, true}) {
      for (const bool zeroed : {false, true}) {
        const auto want = OnCpu(lookups, combiner, weighted, zeroed, gradient);
        const auto got = OnQueue(lookups, combiner, weighted, zeroed, gradient, kUsual, shift);
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

// Rows of 0 to 34 embeddings; in another order their sums have other bits.
template <class T>
Lookup<T> RowsOfAnyLength(int64_t dim) {
  constexpr int64_t kLongest = 34;
  Lookup<T> lookup(9, kLongest + 1, 0, 60, dim);
  std::mt19937 random(4);
  for (int64_t r = 0; r <= kLongest; ++r) {
    for (int64_t i = 0; i < r; ++i) {
      lookup.idx.push_back(static_cast<int32_t>(random() % 60));
      lookup.weights.push_back(static_cast<float>(random() % 64) / 16 - 1);
    }
    lookup.splits[r + 1] = static_cast<int32_t>(lookup.idx.size());
  }
  for (T& value : lookup.embeddings) value = testing::NumberOfAnySize<T>(&random);
  return lookup;
}

template <class T>
void CheckEveryWidth() {
  for (const int64_t dim : {1, 2, 4, 6, 12, 20}) {
    std::vector<Lookup<T>> lookups;
    lookups.push_back(RowsOfAnyLength<T>(dim));
    for (const Shift shift : {Shift{0, 0}, Shift{1, 0}, Shift{0, 1}, Shift{0, 0, 4}, Shift{0, 0, 3}}) {
      ExpectCpusBits(lookups, false, shift);
    }
  }
}
TEST(PacksAndColumnsAddInOneOrder) {
  CheckEveryWidth<float>();
  CheckEveryWidth<double>();
}

// Embeddings with given numbers of duplicates; of the CPU's gradient up to 64 of them have the bits, and beyond that
// the sums are made in pieces.
template <class T>
void CheckGradientSums(int64_t dim, Shift shift, size_t first) {
  const auto counts = testing::Rotated(testing::ManyDuplicates(), first);
  const int64_t distinct = static_cast<int64_t>(counts.size());
  std::vector<Lookup<T>> lookups;
  lookups.emplace_back(1, 0, 0, distinct, dim);
  Lookup<T>& lookup = lookups[0];
  lookup.idx = testing::RowsWithDuplicates<Array<int32_t>>(counts, 2);
  std::mt19937 random(3);
  while (lookup.splits.back() < static_cast<int32_t>(lookup.idx.size())) {
    const int32_t end = lookup.splits.back() + static_cast<int32_t>(random() % 9);
    lookup.splits.push_back(std::min(end, static_cast<int32_t>(lookup.idx.size())));
    lookup.zero.push_back(random() % 5 == 0);
    for (int64_t c = 0; c < dim; ++c) lookup.upstream.push_back(testing::NumberOfAnySize<T>(&random));
  }
  for (size_t i = 0; i < lookup.idx.size(); ++i) lookup.weights.push_back(static_cast<float>(random() % 64) / 16 - 1);
  for (const bool weighted : {false, true}) {
    const auto got = OnQueue(lookups, Combiner::kMean, weighted, true, true, kUsual, shift)[0];
    std::vector<std::vector<T>> terms(distinct * dim);
    for (size_t row = 0; row + 1 < lookup.splits.size(); ++row) {
      const int64_t begin = lookup.splits[row], n = lookup.splits[row + 1] - begin;
      for (int64_t i = begin; i < begin + n; ++i) {
        for (int64_t c = 0; c < dim; ++c) {
          const T grad = lookup.zero[row] ? T(0) : lookup.upstream[row * dim + c];
          T term = grad * (n > 1 ? static_cast<T>(1.0 / static_cast<double>(n)) : T(1));
          if (weighted) {
            const T divisor = WeightDivisor<T>(&lookup.weights[begin], n, Combiner::kMean);
            term = T(0) + (divisor == T(0) ? T(0) : grad / divisor) * static_cast<T>(lookup.weights[i]);
          }
          terms[lookup.idx[i] * dim + c].push_back(term);
        }
      }
    }
    bool same = true;
    for (size_t at = 0; at < terms.size(); ++at) {
      const T want = testing::SumInPieces(terms[at]);
      same &= std::memcmp(&want, &got[at], sizeof(T)) == 0;
    }
    EXPECT_TRUE(same);
  }
}
TEST(GradientsOfPacksAndColumnsHaveOneOrder) {
  for (size_t first = 0; first < testing::ManyDuplicates().size(); ++first) {
#if defined(__CUDACC__)
    if (first % 4 != 2) continue;  // The PTX machine is slow.
#endif
    for (const int64_t dim : {1, 4, 6}) {
      for (const Shift shift : {Shift{0, 0}, Shift{1, 0}, Shift{0, 1}, Shift{0, 0, 4}, Shift{0, 0, 1}}) {
        CheckGradientSums<float>(dim, shift, first);
        CheckGradientSums<double>(dim, shift, first);
      }
    }
  }
}

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
