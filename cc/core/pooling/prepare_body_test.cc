// The bodies of the GPU's preparation of lookups, run on the host, against the CPU's: the same ids in the same order.
#include "cc/core/pooling/prepare_body.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/unique/unique.h"

namespace tf_booster {
namespace gpu {
namespace {

struct Results {
  Array<int32_t> row_splits, idx;
  std::vector<bool> row_is_empty;
  std::vector<int64_t> ids;
  Array<float> weights;
};

template <class T>
struct Lookup {
  Array<T> values;
  Array<float> weights;
  Array<int64_t> indices, shape;
  int64_t rows = 0, width = 0;  // Of dense ones.
  LookupInput<T> input;

  // [batch, sub, 9] with `n` ids; leading dimensions: the first or the first two.
  static Lookup Sparse(int seed, int64_t n, int64_t batch, int64_t sub, int64_t leading, bool sorted, bool weighted) {
    Lookup lookup;
    std::mt19937 random(seed);
    std::vector<std::vector<int64_t>> places;
    for (int64_t i = 0; i < n && batch * sub > 0; ++i) {
      places.push_back({static_cast<int64_t>(random() % batch), static_cast<int64_t>(random() % sub), i % 9});
    }
    if (sorted) std::sort(places.begin(), places.end());
    for (const auto& place : places) {
      lookup.indices.insert(lookup.indices.end(), place.begin(), place.end());
      lookup.values.push_back(static_cast<T>(random() % 40) - 4);
      lookup.weights.push_back(static_cast<float>(random() % 9) - 3);
    }
    lookup.shape = {batch, sub, 9};
    LookupInput<T>& input = lookup.input;
    input.n = static_cast<int64_t>(lookup.values.size());
    input.rank = 3;
    input.leading_dims = leading;
    input.default_id = 7;
    lookup.indices.push_back(0);  // Never null: a null pointer says dense.
    lookup.weights.push_back(0);
    lookup.Point(weighted);
    return lookup;
  }

  static Lookup Dense(int seed, int64_t rows, int64_t width) {
    Lookup lookup;
    std::mt19937 random(seed);
    for (int64_t i = 0; i < rows * width; ++i) lookup.values.push_back(static_cast<T>(random() % 20) - 2);
    lookup.input.n = rows * width;
    lookup.input.rows = rows;
    lookup.input.width = width;
    lookup.input.default_id = 3;
    lookup.Point(false);
    return lookup;
  }

  void Point(bool weighted) {
    input.values = values.data();
    if (indices.empty()) return;
    input.indices = indices.data();
    input.dense_shape = shape.data();
    input.weights = weighted ? weights.data() : nullptr;
  }
};

template <class T>
Results OnCpu(Lookup<T>& lookup, const LookupRules& rules, bool weighted) {
  lookup.Point(weighted);
  Results results;
  int64_t rows = 0;
  LookupCounts counts;
  EXPECT_OK(RowsOf(lookup.input, rules, &rows));
  results.row_splits.resize(rows + 1);
  std::unique_ptr<bool[]> empty(new bool[rows + 1]);
  EXPECT_OK(CountRows(lookup.input, rules, rows, results.row_splits.data(), empty.get(), &counts));
  if (rules.fill_rows) results.row_is_empty.assign(empty.get(), empty.get() + rows);
  std::vector<T> filled(counts.ids), distinct;
  results.weights.resize(weighted ? counts.ids : 0);
  FillRows(lookup.input, rules, counts, results.row_splits.data(), filled.data(),
           weighted ? results.weights.data() : nullptr);
  results.idx.resize(counts.ids);
  SerialFor serial;
  const auto allocate = [&](int64_t size, T** ids, int64_t**) {
    distinct.resize(size);
    *ids = distinct.data();
    return Status();
  };
  EXPECT_OK((Unique<T, int32_t>(filled.data(), counts.ids, UniqueOptions(), results.idx.data(), allocate, serial)));
  results.ids.assign(distinct.begin(), distinct.end());
  return results;
}

template <class T, class Id>
PrepareJob<T, Id> JobOf(Lookup<T>& lookup, bool weighted) {
  lookup.Point(weighted);
  PrepareJob<T, Id> job;
  const LookupInput<T>& input = lookup.input;
  job.values = input.values;
  job.n = input.n;
  job.weights = input.weights;
  job.default_id = input.default_id;
  job.indices = input.indices;
  job.rank = input.rank;
  job.leading_dims = input.leading_dims;
  for (int64_t d = 0; d < input.leading_dims && !input.dense(); ++d) job.shape[d] = lookup.shape[d];
  job.rows = input.rows;
  job.width = input.width;
  return job;
}

// The calls of prepare_gpu.h on a card, or by so many threads of the host.
template <class T, class Id>
class Calls {
 public:
  using Jobs = std::vector<PrepareJob<T, Id>>;
#if defined(__CUDACC__)
  explicit Calls(int) {}
  void ReadRows(const Jobs& jobs, std::vector<int64_t>* rows) {
    Array<int64_t> scratch(jobs.size());
    EXPECT_TRUE(ReadLastRows(jobs, scratch.data(), nullptr, rows) == nullptr);
  }
  void Prepare(const Jobs& jobs, const LookupRules& rules, std::vector<PrepareCounts>* counts, PrepareError* error) {
    scratch_.assign(PrepareScratchBytes(jobs, rules), 0x55);
    EXPECT_TRUE(PrepareLookups(jobs, rules, scratch_.data(), nullptr, counts, error) == nullptr);
  }
  void Finish(const Jobs& jobs, const LookupRules& rules, const std::vector<PrepareCounts>& counts) {
    EXPECT_TRUE(FinishLookupsAsync(jobs, rules, scratch_.data(), nullptr, counts) == nullptr);
    WaitForCard();
  }
#else
  explicit Calls(int threads) : queue_(threads) {}
  void ReadRows(const Jobs& jobs, std::vector<int64_t>* rows) {
    std::vector<int64_t> scratch(jobs.size());
    ReadLastRowsOnQueue(queue_, jobs, scratch.data(), rows);
  }
  void Prepare(const Jobs& jobs, const LookupRules& rules, std::vector<PrepareCounts>* counts, PrepareError* error) {
    Scratch measure(nullptr);
    Halves(jobs, rules, &measure);
    scratch_.assign(measure.used() + 1, 0x55);
    Scratch scratch(scratch_.data());
    Halves(jobs, rules, &scratch).Count(queue_, counts, error);
    EXPECT_EQ(scratch.used(), measure.used());
  }
  void Finish(const Jobs& jobs, const LookupRules& rules, const std::vector<PrepareCounts>& counts) {
    Scratch scratch(scratch_.data());
    Halves(jobs, rules, &scratch).Finish(queue_, counts);
  }
#endif

 private:
#if !defined(__CUDACC__)
  using Halves = Preparation<HostQueue, T, Id>;
  HostQueue queue_;
#endif
  Array<char> scratch_;
};

template <class T, class Id>
std::vector<Results> OnQueue(std::vector<Lookup<T>>& lookups, const LookupRules& rules, bool weighted, int threads,
                             PrepareError* error) {
  Calls<T, Id> calls(threads);
  std::vector<PrepareJob<T, Id>> jobs;
  for (auto& lookup : lookups) jobs.push_back(JobOf<T, Id>(lookup, weighted));
  std::vector<int64_t> last_rows;
  calls.ReadRows(jobs, &last_rows);
  std::vector<Results> results(jobs.size());
  std::vector<Array<char>> empty;  // Of bools.
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!lookups[i].input.dense()) {
      jobs[i].rows = last_rows[i] + 1;
      if (rules.fill_rows) {
        jobs[i].rows = 1;
        for (int64_t d = 0; d < jobs[i].leading_dims; ++d) jobs[i].rows *= jobs[i].shape[d];
      }
    }
    results[i].row_splits.resize(jobs[i].rows + 1);
    empty.emplace_back(jobs[i].rows + 1, 1);
    jobs[i].row_splits = results[i].row_splits.data();
    jobs[i].row_is_empty = rules.fill_rows ? reinterpret_cast<bool*>(empty.back().data()) : nullptr;
  }
  std::vector<PrepareCounts> counts;
  calls.Prepare(jobs, rules, &counts, error);
  if (error->lookup >= 0) return results;
  std::vector<Array<Id>> ids(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    results[i].idx.resize(counts[i].places);
    results[i].weights.resize(weighted ? counts[i].places : 0);
    ids[i].resize(counts[i].distinct);
    jobs[i].idx = results[i].idx.data();
    jobs[i].ids = ids[i].data();
    jobs[i].kept_weights = results[i].weights.data();
  }
  calls.Finish(jobs, rules, counts);
  for (size_t i = 0; i < jobs.size(); ++i) {
    results[i].ids.assign(ids[i].begin(), ids[i].end());
    if (rules.fill_rows) results[i].row_is_empty.assign(empty[i].begin(), empty[i].end() - 1);
  }
  return results;
}

template <class T, class Id>
void ExpectCpus(std::vector<Lookup<T>>& lookups, const LookupRules& rules, bool weighted) {
  PrepareError error;
  const std::vector<Results> got = OnQueue<T, Id>(lookups, rules, weighted, 3, &error);
  EXPECT_EQ(error.lookup, -1);
  for (size_t i = 0; i < lookups.size(); ++i) {
    const Results want = OnCpu(lookups[i], rules, weighted);
    EXPECT_TRUE(got[i].row_splits == want.row_splits);
    EXPECT_TRUE(got[i].row_is_empty == want.row_is_empty);
    EXPECT_TRUE(got[i].idx == want.idx);
    EXPECT_TRUE(got[i].ids == want.ids);
    EXPECT_TRUE(got[i].weights == want.weights);
  }
}

template <class T, class Id>
void CheckSparse(bool fill_rows, bool sorted) {
  for (const bool prune_ids : {false, true}) {
    for (const bool prune_weights : {false, true}) {
      for (const bool weighted : {false, true}) {
        std::vector<Lookup<T>> lookups;
        const int64_t leading = fill_rows ? 2 : 1;
        lookups.push_back(Lookup<T>::Sparse(1, 300, 50, 3, leading, sorted, weighted));
        lookups.push_back(Lookup<T>::Sparse(2, 0, 5, 2, leading, sorted, weighted));
        lookups.push_back(Lookup<T>::Sparse(3, 1, 1, 1, 1, sorted, weighted));
        lookups.push_back(Lookup<T>::Sparse(4, 0, 0, 3, 1, sorted, weighted));
        lookups.push_back(Lookup<T>::Sparse(5, 5000, 4, 1, leading, sorted, weighted));
        lookups.push_back(Lookup<T>::Sparse(6, 700, 2000, 1, 1, sorted, weighted));
        if (fill_rows && !weighted) lookups.push_back(Lookup<T>::Dense(7, 90, 3));  // Sorted among the others.
        ExpectCpus<T, Id>(lookups, {prune_ids, prune_weights, fill_rows}, weighted);
      }
    }
  }
}

TEST(FilledLookupsAreTheCpus) {
  for (const bool sorted : {false, true}) {
    CheckSparse<int64_t, int64_t>(true, sorted);
    CheckSparse<int32_t, int32_t>(true, sorted);
    CheckSparse<int32_t, int64_t>(true, sorted);
  }
}

TEST(LookupsThatAreNotFilledAreTheCpus) {
  CheckSparse<int64_t, int64_t>(false, true);
  CheckSparse<int32_t, int32_t>(false, true);
  CheckSparse<int32_t, int64_t>(false, true);
}

template <class T, class Id>
void CheckDense() {
  for (const bool prune : {false, true}) {
    std::vector<Lookup<T>> lookups;
    lookups.push_back(Lookup<T>::Dense(1, 30, 4));
    lookups.push_back(Lookup<T>::Dense(2, 0, 4));
    lookups.push_back(Lookup<T>::Dense(3, 7, 0));
    lookups.push_back(Lookup<T>::Dense(4, 2000, 1));
    for (int i = 0; i < 60; ++i) lookups.push_back(Lookup<T>::Dense(5 + i, i, 3));
    ExpectCpus<T, Id>(lookups, {prune, false, true}, false);
  }
}
TEST(DenseLookupsAreTheCpus) {
  CheckDense<int64_t, int64_t>();
  CheckDense<int32_t, int32_t>();
  CheckDense<int32_t, int64_t>();
}

TEST(WideIdsAreKeptApart) {
  std::vector<Lookup<int64_t>> lookups;
  lookups.push_back(Lookup<int64_t>::Dense(1, 500, 2));
  for (size_t i = 0; i < lookups[0].values.size(); ++i) {
    int64_t& id = lookups[0].values[i];
    if (id != -1) id = static_cast<int64_t>((static_cast<uint64_t>(id) << 32) + (uint64_t{i % 5} << 61));
  }
  ExpectCpus<int64_t, int64_t>(lookups, {false, false, true}, false);
}

template <class T, class Id>
void CheckRowsThatDoNotFit() {
  std::vector<Lookup<T>> lookups;
  for (int i = 0; i < 3; ++i) lookups.push_back(Lookup<T>::Sparse(i, 40, 8, 1, 1, true, false));
  lookups[1].indices[3 * 20] = 8;
  PrepareError error;
  OnQueue<T, Id>(lookups, {false, false, true}, false, 2, &error);
  EXPECT_EQ(error.lookup, 1);
  EXPECT_FALSE(error.falls);
  lookups[1].indices[3 * 20] = -1;
  OnQueue<T, Id>(lookups, {false, false, true}, false, 2, &error);
  EXPECT_EQ(error.lookup, 1);
  lookups[1].indices[3 * 20] = 0;  // Rows fall, which only those that are filled may.
  OnQueue<T, Id>(lookups, {false, false, true}, false, 2, &error);
  EXPECT_EQ(error.lookup, -1);
  OnQueue<T, Id>(lookups, {false, false, false}, false, 2, &error);
  EXPECT_EQ(error.lookup, 1);
  EXPECT_TRUE(error.falls);
}
TEST(RowsThatDoNotFitAreFound) {
  CheckRowsThatDoNotFit<int64_t, int64_t>();
  CheckRowsThatDoNotFit<int32_t, int32_t>();
  CheckRowsThatDoNotFit<int32_t, int64_t>();
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
