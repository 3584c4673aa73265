// The bodies of the card's unique, run on the host, against a map.
#include "cc/core/unique/unique_body.h"

#include <map>
#include <utility>

#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

template <class T, class Index>
void ExpectDistinct(const std::vector<int64_t>& sizes, uint64_t range, int threads, bool with_none) {
  HostQueue queue(threads);
  std::vector<std::vector<T>> values;
  std::vector<std::vector<uint32_t>> fields;
  std::vector<std::vector<Index>> idx;
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
    if (j % 2 == 0) job.fields = fields[j].data();
    if (j % 2 != 0) fields[j].assign(sizes[j], 1);
    job.field = 1;
    job.idx = idx[j].data();
    job.units = sizes[j];
    jobs.push_back(job);
  }
  Scratch measure(nullptr);
  UniqueOnQueue<HostQueue, T, Index>(jobs, &measure);
  std::vector<char> memory(measure.used() + 256, 0x5A);
  Scratch scratch(memory.data());
  UniqueOnQueue<HostQueue, T, Index> unique(jobs, &scratch);
  unique.Find(queue);
  std::vector<T> out_values(total + 1);
  std::vector<uint32_t> out_fields(total, 99);
  std::vector<int64_t> counts(total, -1);
  unique.Write(queue, 1000, {out_values.data(), out_fields.data(), counts.data()});

  std::map<std::pair<uint32_t, T>, int64_t> numbers;
  std::vector<int64_t> expected_counts;
  for (size_t j = 0; j < sizes.size(); ++j) {
    for (int64_t i = 0; i < sizes[j]; ++i) {
      if (fields[j][i] == kNoField) continue;
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
  EXPECT_EQ(unique.Count(queue), static_cast<int64_t>(expected_counts.size()));
  bool tail = true;
  for (int64_t i = 0; i < total; ++i) {
    const bool real = i < static_cast<int64_t>(expected_counts.size());
    tail &= counts[i] == (real ? expected_counts[i] : 0) && (real || out_fields[i] == kNoField);
  }
  EXPECT_TRUE(tail);
}

TEST(DistinctInTheOrderOfFirstSight) {
  for (const int threads : {1, 3}) {
    for (const uint64_t range : {uint64_t{1}, uint64_t{17}, uint64_t{1000}, ~uint64_t{0}}) {
      for (const bool with_none : {false, true}) {
        ExpectDistinct<int64_t, int64_t>({5000}, range, threads, with_none);
        ExpectDistinct<int64_t, int32_t>({0, 700, 1, 0, 2500, 3}, range, threads, with_none);
        ExpectDistinct<int32_t, int64_t>({1030, 4}, range, threads, with_none);
      }
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
