// The card's unique against a map: its bodies on the host, under nvcc the library's kernels on a card.
#include "cc/core/unique/unique_body.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

#if defined(__CUDACC__)
template <class T, class Index>
class Unique {
 public:
  Unique(const std::vector<UniqueJob<T, Index>>& jobs, int) : jobs_(jobs), memory_(UniqueScratchBytes(jobs), 0x5A) {}

  void Find(int64_t* count) { EXPECT_TRUE(UniqueFindAsync(jobs_, memory_.data(), nullptr, count) == nullptr); }
  void Write(int64_t first_idx, const UniqueOutputs<T>& out) {
    EXPECT_TRUE(UniqueWriteAsync(jobs_, first_idx, out, memory_.data(), nullptr) == nullptr);
    WaitForCard();
  }
  void CopyCounts(const int64_t* counts, int64_t n, Index* out) {
    EXPECT_TRUE(CopyCountsAsync(counts, n, out, nullptr) == nullptr);
    WaitForCard();
  }

 private:
  const std::vector<UniqueJob<T, Index>> jobs_;
  Array<char> memory_;
};
#else
template <class T, class Index>
class Unique {
 public:
  Unique(const std::vector<UniqueJob<T, Index>>& jobs, int threads) : queue_(threads) {
    Scratch measure(nullptr);
    Bodies(jobs, &measure);
    memory_.assign(measure.used() + 256, 0x5A);
    Scratch scratch(memory_.data());
    bodies_ = std::make_unique<Bodies>(jobs, &scratch);
  }

  void Find(int64_t* count) {
    bodies_->Find(queue_);
    if (count != nullptr) *count = bodies_->Count(queue_);
  }
  void Write(int64_t first_idx, const UniqueOutputs<T>& out) { bodies_->Write(queue_, first_idx, out); }
  void CopyCounts(const int64_t* counts, int64_t n, Index* out) { ForEach(queue_, n, CopyCount<Index>{counts, out}); }

 private:
  using Bodies = UniqueOnQueue<HostQueue, T, Index>;
  HostQueue queue_;
  std::vector<char> memory_;
  std::unique_ptr<Bodies> bodies_;
};
#endif

// with_none: some values are of no field. missing: those of -1 are none, where they are no part of arrays with fields.
template <class T, class Index>
void ExpectDistinct(const std::vector<int64_t>& sizes, uint64_t range, int threads, bool with_none,
                    bool missing = false) {
  std::vector<Array<T>> values;
  std::vector<Array<uint32_t>> fields;
  std::vector<Array<Index>> idx;
  std::vector<UniqueJob<T, Index>> jobs;
  int64_t total = 0;
  for (size_t j = 0; j < sizes.size(); ++j) {
    values.emplace_back(sizes[j]);
    fields.emplace_back(sizes[j]);
    idx.emplace_back(sizes[j], Index{-7});
    for (int64_t i = 0; i < sizes[j]; ++i) {
      const uint64_t draw = Mix64(total + i + 1);
      values[j][i] = static_cast<T>(draw % range - range / 2);
      fields[j][i] = with_none && draw % 5 == 0 ? kNoField : static_cast<uint32_t>(draw >> 60) % 3;
    }
    total += sizes[j];
  }
  for (size_t j = 0; j < sizes.size(); ++j) {
    UniqueJob<T, Index> job;
    job.values = values[j].data();
    if (j % 2 == 0 && !missing) job.fields = fields[j].data();
    if (job.fields == nullptr) fields[j].assign(sizes[j], 1);
    job.field = 1;
    job.skip_missing = missing;
    for (int64_t i = 0; i < sizes[j] && missing; ++i) {
      if (values[j][i] == T(-1)) fields[j][i] = kNoField;
    }
    job.idx = idx[j].data();
    job.units = sizes[j];
    jobs.push_back(job);
  }
  Unique<T, Index> unique(jobs, threads);
  unique.Find(nullptr);
  Array<T> out_values(total + 1);
  Array<uint32_t> out_fields(total, 99);
  Array<int64_t> counts(total, -1);
  unique.Write(1000, {out_values.data(), out_fields.data(), counts.data()});

  std::map<std::pair<uint32_t, T>, int64_t> numbers;
  std::vector<int64_t> expected_counts;
  for (size_t j = 0; j < sizes.size(); ++j) {
    for (int64_t i = 0; i < sizes[j]; ++i) {
      if (fields[j][i] == kNoField) {
        if (missing) EXPECT_EQ(idx[j][i], Index{-1});
        continue;
      }
      const auto [at, is_new] =
          numbers.try_emplace({fields[j][i], values[j][i]}, static_cast<int64_t>(expected_counts.size()));
      if (is_new) {  // In the order of first sight.
        EXPECT_TRUE(out_values[at->second] == values[j][i]);
        EXPECT_EQ(out_fields[at->second], fields[j][i]);
        expected_counts.push_back(0);
      }
      ++expected_counts[at->second];
      EXPECT_EQ(int64_t{idx[j][i]}, 1000 + at->second);
    }
  }
  const int64_t distinct = static_cast<int64_t>(expected_counts.size());
  bool tail = true;
  for (int64_t i = 0; i < total; ++i) {
    const bool real = i < distinct;
    tail &= counts[i] == (real ? expected_counts[i] : 0) && (real || out_fields[i] == kNoField);
  }
  EXPECT_TRUE(tail);

  // Where a count is wanted, outputs have its size.
  int64_t count = -1;
  unique.Find(&count);
  EXPECT_EQ(count, distinct);
  if (count != distinct) return;
  Array<T> few_values(count);
  unique.Write(0, {few_values.data(), nullptr, nullptr});
  EXPECT_TRUE(std::equal(few_values.begin(), few_values.end(), out_values.begin()));
  Array<Index> few_counts(count + 1, Index{-7});
  unique.CopyCounts(counts.data(), count, few_counts.data());
  EXPECT_TRUE(std::equal(expected_counts.begin(), expected_counts.end(), few_counts.begin()));
  EXPECT_EQ(few_counts[count], Index{-7});
}

TEST(DistinctInTheOrderOfFirstSight) {
  for (const int threads : {1, 3}) {
    for (const uint64_t range : {uint64_t{1}, uint64_t{17}, uint64_t{1000}, ~uint64_t{0}}) {
      for (const bool with_none : {false, true}) {
        ExpectDistinct<int64_t, int64_t>({5000}, range, threads, with_none);
        ExpectDistinct<int64_t, int32_t>({0, 700, 1, 0, 2500, 3}, range, threads, with_none);
        ExpectDistinct<int32_t, int64_t>({1030, 4}, range, threads, with_none);
        ExpectDistinct<int32_t, int32_t>({900, 0, 200}, range, threads, with_none);
      }
      ExpectDistinct<int64_t, int64_t>({700}, range, threads, false, true);
      ExpectDistinct<int64_t, int64_t>({300, 0, 500}, range, threads, false, true);
      ExpectDistinct<int32_t, int32_t>({90, 20}, range, threads, false, true);
    }
  }
}

TEST(NothingIsDistinctInNothing) {
  ExpectDistinct<int64_t, int64_t>({}, 3, 1, false);
  ExpectDistinct<int32_t, int32_t>({0, 0}, 3, 1, false);
}

TEST(NoValuesAtAll) { ExpectDistinct<int64_t, int64_t>({1}, 1, 1, true); }

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
