#include "cc/core/pooling/segment_pooling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/pooling/testing/random_lookup.h"

namespace tf_booster {
namespace {

using Lookup = testing::RandomLookup<float>;

double Divisor(const PoolingSegments& s, int64_t row) {
  double sum = 0;
  for (int64_t i = s.row_splits[row]; i < s.row_splits[row + 1]; ++i) {
    const double w = s.weights != nullptr ? s.weights[i] : 1.0;
    sum += s.combiner == Combiner::kSqrtN ? w * w : w;
  }
  return s.combiner == Combiner::kSum ? 1.0 : s.combiner == Combiner::kMean ? sum : std::sqrt(sum);
}

// Written to, and read from, the middle of rows that are wider: the same bits, and nothing beside them.
void CheckColumnsOfWiderMatrices(const Lookup& lookup, const PoolingSegments& s, const std::vector<float>& pooled,
                                 const std::vector<float>& gradient, ParallelFor& pf) {
  const int64_t step = s.dim + 5;
  std::vector<float> wide(s.rows * step, -7.0f), upstream(s.rows * step, 9.0f), narrow(gradient.size(), -7.0f);
  for (int64_t r = 0; r < s.rows; ++r) {
    std::copy_n(lookup.upstream.data() + r * s.dim, s.dim, upstream.data() + r * step + 2);
  }
  std::vector<int64_t> also(s.rows, 0);
  PoolByRows<float>({{s, lookup.embeddings.data(), wide.data() + 2, step}}, pf, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) ++also[r];
  });
  PoolGradient<float>({{s, upstream.data() + 2, narrow.data(), step}}, pf);
  int64_t wrong = std::memcmp(narrow.data(), gradient.data(), gradient.size() * sizeof(float)) != 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* row = wide.data() + r * step;
    wrong += std::memcmp(row + 2, pooled.data() + r * s.dim, s.dim * sizeof(float)) != 0 || also[r] != 1;
    for (const int64_t outside : {int64_t{0}, int64_t{1}, s.dim + 2, s.dim + 4}) wrong += row[outside] != -7.0f;
  }
  EXPECT_EQ(wrong, 0);
}

// In double, and in the order of the places.
void CheckAgainstDoubles(const Lookup& lookup, const PoolingSegments& s, ParallelFor& pf) {
  std::vector<float> pooled(s.rows * s.dim, -7.0f), gradient(s.distinct * s.dim, -7.0f);
  Pool<float>({{s, lookup.embeddings.data(), pooled.data()}}, pf);
  PoolGradient<float>({{s, lookup.upstream.data(), gradient.data()}}, pf);
  CheckColumnsOfWiderMatrices(lookup, s, pooled, gradient, pf);
  std::vector<double> want(s.rows * s.dim, 0.0), want_gradient(s.distinct * s.dim, 0.0);
  std::vector<double> size(s.rows * s.dim, 0.0), gradient_size(s.distinct * s.dim, 0.0);
  for (int64_t r = 0; r < s.rows; ++r) {
    if (s.zero_rows != nullptr && s.zero_rows[r]) continue;
    const double divisor = Divisor(s, r);
    if (divisor == 0.0) continue;
    for (int64_t i = s.row_splits[r]; i < s.row_splits[r + 1]; ++i) {
      const double factor = (s.weights != nullptr ? s.weights[i] : 1.0) / divisor;
      for (int64_t d = 0; d < s.dim; ++d) {
        const int64_t at = s.idx[i] * s.dim + d, out = r * s.dim + d;
        want[out] += factor * lookup.embeddings[at];
        size[out] += std::abs(factor * lookup.embeddings[at]);
        want_gradient[at] += factor * lookup.upstream[out];
        gradient_size[at] += std::abs(factor * lookup.upstream[out]);
      }
    }
  }
  // The divisor of weights of both signs may itself have lost digits; sums of weights are checked where they are
  // positive.
  const double loss = s.weights != nullptr ? 1e-3 : 1e-5;
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(std::abs(pooled[i] - want[i]) <= loss * size[i]);
  for (size_t i = 0; i < want_gradient.size(); ++i) {
    EXPECT_TRUE(std::abs(gradient[i] - want_gradient[i]) <= loss * gradient_size[i]);
  }
}

TEST(SumsAndGradientsAreThoseOfDoubles) {
  SerialFor serial;
  for (const int64_t dim : {1, 3, 4, 8, 16, 32, 70}) {
    for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
      Lookup lookup(static_cast<int>(dim), 40, 30, 25, dim);
      if (combiner == Combiner::kMean) {
        for (float& w : lookup.weights) w = std::abs(w);
      }
      for (const bool weighted : {false, true}) {
        for (const bool zeroed : {false, true}) {
          CheckAgainstDoubles(lookup, lookup.Segments(combiner, weighted, zeroed), serial);
        }
      }
    }
  }
}

TEST(ThreadsDoNotChangeABit) {
  const Lookup a(1, 300, 20, 50, 7), b(2, 2, 500, 400, 16), c(3, 0, 0, 3, 4);
  for (const bool weighted : {false, true}) {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 5, 16}) {
      ThreadFor pf(threads);
      std::vector<std::vector<float>> out;
      std::vector<PoolingJob<float>> jobs;
      std::vector<PoolingGradientJob<float>> gradients;
      out.reserve(6);
      for (const Lookup* k : {&a, &b, &c}) {
        const PoolingSegments s = k->Segments(Combiner::kSqrtN, weighted, true);
        out.emplace_back(s.rows * s.dim, -7.0f);
        jobs.push_back({s, k->embeddings.data(), out.back().data()});
        out.emplace_back(s.distinct * s.dim, -7.0f);
        gradients.push_back({s, k->upstream.data(), out.back().data()});
      }
      Pool(jobs, pf);
      PoolGradient(gradients, pf);
      std::vector<float> all;
      for (const auto& part : out) all.insert(all.end(), part.begin(), part.end());
      results.push_back(all);
    }
    for (const auto& result : results) EXPECT_TRUE(result == results[0]);
  }
}

// As a Variable's are read: by ids of 64 bits, fetched ahead.
TEST(WideIdsOfEmbeddingsFarApartGiveTheSameBits) {
  for (const int64_t dim : {0, 1, 7, 16, 64, 200}) {
    const Lookup lookup(static_cast<int>(dim), 90, 30, 70, dim);
    std::vector<int64_t> ids(lookup.idx.begin(), lookup.idx.end());
    for (const bool weighted : {false, true}) {
      const PoolingSegments s = lookup.Segments(Combiner::kMean, weighted, true);
      std::vector<float> want(s.rows * dim, -7.0f), wide(want), narrow(want), beside(want);
      SerialFor serial;
      Pool<float>({{s, lookup.embeddings.data(), want.data()}}, serial);
      PoolingSegments without = s;
      without.idx = nullptr;
      ThreadFor pf(3);
      Pool<float>({{without, lookup.embeddings.data(), wide.data(), 0, ids.data(), true}}, pf);
      Pool<float>({{s, lookup.embeddings.data(), narrow.data(), 0, nullptr, true}}, pf);
      PoolByRows<float>({{without, lookup.embeddings.data(), beside.data(), 0, ids.data(), true}}, pf,
                        [](int64_t, int64_t) {});
      EXPECT_TRUE(wide == want && narrow == want && beside == want);
    }
  }
}

TEST(ThePlaceOutsideIsTheFirst) {
  Lookup lookup(5, 4, 5, 6, 2);
  const PoolingSegments s = lookup.Segments(Combiner::kSum, false, false);
  const int64_t n = static_cast<int64_t>(lookup.idx.size());
  std::vector<int64_t> ids(lookup.idx.begin(), lookup.idx.end());
  EXPECT_EQ(PlaceOutside(s, nullptr, n), -1);
  EXPECT_EQ(PlaceOutside(s, ids.data(), n), -1);
  EXPECT_EQ(PlaceOutside(s, ids.data(), 0), -1);
  for (const int64_t bad : {int64_t{-1}, int64_t{6}, int64_t{1} << 32, INT64_MIN, INT64_MAX}) {
    ids[n - 1] = ids[2] = bad;
    EXPECT_EQ(PlaceOutside(s, ids.data(), n), 2);
  }
  lookup.idx[1] = lookup.idx[3] = -3;
  EXPECT_EQ(PlaceOutside(s, nullptr, n), 1);
  EXPECT_TRUE(!CheckSegments(s, n) && CheckSplits(s, n));
}

TEST(OneGradientKeepsTheSignOfZeroAndNoneIsZero) {
  for (const int64_t dim : {3, 8}) {
    Lookup lookup(4, 3, 3, 3, dim);
    lookup.splits = {0, 1, 2, 3};
    lookup.idx = {0, 2, 2};
    lookup.upstream.assign(3 * dim, -0.0f);
    lookup.upstream[dim] = 0.0f;
    std::vector<float> gradient(3 * dim, -7.0f);
    SerialFor serial;
    PoolGradient<float>({{lookup.Segments(Combiner::kSum, false, false), lookup.upstream.data(), gradient.data()}},
                        serial);
    for (int64_t d = 0; d < dim; ++d) {
      EXPECT_TRUE(std::signbit(gradient[d]) && gradient[d] == 0);
      EXPECT_TRUE(!std::signbit(gradient[dim + d]) && gradient[dim + d] == 0);
      EXPECT_EQ(std::signbit(gradient[2 * dim + d]), d > 0);
    }
  }
}

TEST(WeightsThatSumToZeroGiveZeros) {
  Lookup lookup(4, 1, 1, 1, 3);
  lookup.splits = {0, 2};
  lookup.idx = {0, 0};
  lookup.weights = {1.0f, -1.0f};
  const PoolingSegments s = lookup.Segments(Combiner::kMean, true, false);
  std::vector<float> pooled(3, -7.0f);
  SerialFor serial;
  Pool<float>({{s, lookup.embeddings.data(), pooled.data()}}, serial);
  EXPECT_TRUE((pooled == std::vector<float>{0, 0, 0}));
}

TEST(SegmentsThatDoNotFitAreFound) {
  Lookup lookup(5, 4, 5, 6, 2);
  PoolingSegments s = lookup.Segments(Combiner::kSum, false, false);
  const int64_t ids = static_cast<int64_t>(lookup.idx.size());
  EXPECT_TRUE(CheckSegments(s, ids));
  EXPECT_TRUE(!CheckSegments(s, ids + 1));
  s.distinct = 1;
  EXPECT_TRUE(!CheckSegments(s, ids));
  s.distinct = 6;
  lookup.idx[0] = -1;
  EXPECT_TRUE(!CheckSegments(s, ids));
  lookup.idx[0] = 0;
  lookup.splits[1] = static_cast<int32_t>(ids) + 5;
  EXPECT_TRUE(!CheckSegments(s, ids));
}

}  // namespace
}  // namespace tf_booster
