#include "cc/core/exchange/row_terms_body.h"

#include <cstring>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

struct Options {
  int64_t rows = 50, dim = 16, shift = 0;
  int most_terms = 9;
  bool sums = true, scaled = false, placed = false;
};

// A job on random arrays, and what a loop over its rows makes of it.
struct Case {
  static constexpr int64_t kSources = 40;
  Array<float> from, scales, to;
  Array<int32_t> begins, terms, to_at;
  std::vector<float> want;
  TermsJob job;

  explicit Case(const Options& options, uint32_t seed = 1)
      : from(kSources * options.dim + options.shift),
        to((2 * options.rows + 1) * options.dim + options.shift, -7.0f),
        begins(options.rows + 1),
        to_at(options.rows) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < from.size(); ++i) {
      from[i] = random() % 9 == 0 ? -0.0f : static_cast<float>(random() % 4001) * 0.01f - 20.0f;
    }
    std::vector<int32_t> all;
    for (int64_t i = 0; i < options.rows; ++i) {
      begins[i] = static_cast<int32_t>(all.size());
      const int n = options.sums ? static_cast<int>(random() % options.most_terms) + 1 : 1;
      for (int k = 0; k < n; ++k) all.push_back(static_cast<int32_t>(random() % kSources));
      if (!options.sums && random() % 5 == 0) all.back() = -1;
      to_at[i] = static_cast<int32_t>((2 * (options.rows - i) - 1) * options.dim);
    }
    begins[options.rows] = static_cast<int32_t>(all.size());
    Array<int32_t>(all.size()).swap(terms);
    Array<float>(all.size()).swap(scales);
    for (size_t k = 0; k < all.size(); ++k) {
      terms[k] = all[k];
      scales[k] = random() % 3 == 0 ? 1.0f : 1.0f / static_cast<float>(1 + random() % 7);
    }
    job.from = from.data() + options.shift;
    job.step = options.dim;
    job.begins = options.sums ? begins.data() : nullptr;
    job.terms = terms.data();
    job.scales = options.scaled ? scales.data() : nullptr;
    job.to = to.data() + options.shift;
    job.to_at = options.placed ? to_at.data() : nullptr;
    job.rows = options.rows;
    job.dim = options.dim;
    job.aligned = options.dim % 4 == 0;
    want.assign(to.data(), to.data() + to.size());
    for (int64_t i = 0; i < options.rows; ++i) {
      float* row = want.data() + options.shift + (options.placed ? int64_t{to_at[i]} : i * options.dim);
      for (int64_t c = 0; c < options.dim; ++c) row[c] = ValueOf(i, c);
    }
  }

  float ValueOf(int64_t row, int64_t column) const {
    volatile float sum = 0;  // Each operation is rounded.
    for (int64_t k = begins[row]; k < begins[row + 1]; ++k) {
      if (terms[k] < 0) return 0.0f;
      volatile float term = job.from[terms[k] * job.step + column];
      if (job.scales != nullptr) term = scales[k] * term;
      if (k == begins[row] && (job.scales != nullptr || begins[row + 1] == k + 1)) {
        sum = term;
      } else {
        sum = sum + term;
      }
    }
    return sum;
  }

  void Expect() const { EXPECT_TRUE(std::memcmp(want.data(), to.data(), to.size() * sizeof(float)) == 0); }
};

void Run(const std::vector<TermsJob>& jobs) {
#if defined(__CUDACC__)
  EXPECT_TRUE(SumTermsAsync(jobs, nullptr) == nullptr);
#else
  HostQueue queue(2);
  SumTermsOn(queue, jobs);
#endif
  WaitForCard();
}

TEST(RowsOfEveryDimAndAlignment) {
  for (const int64_t dim : {1, 3, 4, 5, 8, 17, 64, 130}) {
    for (const int64_t shift : {0, 1, 4}) {
      for (const int kind : {0, 1, 2, 3}) {
        Options options;
        options.dim = dim;
        options.shift = shift;
        options.sums = kind > 0;
        options.scaled = kind == 2;
        options.placed = kind != 2;
        const Case one(options, static_cast<uint32_t>(dim * 10 + shift));
        Run({one.job});
        one.Expect();
      }
    }
  }
}

TEST(MoreJobsThanALaunchTakes) {
  std::vector<Case> cases;
  std::vector<TermsJob> jobs;
  for (int i = 0; i < 80; ++i) {
    Options options;
    options.rows = i % 7 * 5;
    options.dim = 1 + i % 5 * 3;
    options.scaled = i % 2 == 0;
    cases.emplace_back(options, i);
  }
  for (const Case& one : cases) jobs.push_back(one.job);
  Run(jobs);
  for (const Case& one : cases) one.Expect();
}

TEST(ARowOfAThousandTerms) {
  Options options;
  options.rows = 3;
  options.most_terms = 2000;
  const Case one(options);
  Run({one.job});
  one.Expect();
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
