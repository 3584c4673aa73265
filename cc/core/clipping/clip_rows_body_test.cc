// Rows clipped by the card's body, run by the host, and, compiled by nvcc, on a card; the CPU's beside them.
#include "cc/core/clipping/clip_rows_body.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace {

using gpu::Array;

void RunOnCard(const std::vector<ClipRows>& all) {
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::ClipAllRowsAsync(all, nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(3);
  gpu::ClipAllRowsOn(queue, all);
#endif
}

struct Sizes {
  int64_t count, dim;
};

struct Problem {
  std::vector<Array<float>> rows, grads, results;
  std::vector<ClipRows> all;

  Problem(const std::vector<Sizes>& sizes, bool gradient) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (const Sizes& s : sizes) {
      rows.emplace_back(s.count * s.dim);
      grads.emplace_back(s.count * s.dim);
      results.emplace_back(s.count * s.dim + 1, -5.0f);
      for (int64_t r = 0; r < s.count; ++r) {
        const float scale = r % 4 == 3 ? 0.0f : std::exp2(static_cast<float>(r % 9) - 5);  // Some rows are zeros.
        for (int64_t i = 0; i < s.dim; ++i) rows.back()[r * s.dim + i] = normal(random) * scale;
      }
      for (float& g : grads.back()) g = normal(random);
    }
    for (size_t j = 0; j < sizes.size(); ++j) {
      ClipRows job;
      job.rows = rows[j].data();
      job.grads = gradient ? grads[j].data() : nullptr;
      job.out = results[j].data();
      job.count = sizes[j].count;
      job.dim = sizes[j].dim;
      job.max_norm = 0.5f + static_cast<float>(j % 3);
      all.push_back(job);
    }
  }
};

const std::vector<Sizes> kSizes = {{40, 1}, {33, 3}, {0, 4}, {21, 16}, {17, 0}, {9, 33}, {50, 8}, {5, 300}};

// In doubles, by the formula; near, because rounding differs.
void CheckFormula(void (*run)(const std::vector<ClipRows>&), bool gradient) {
  Problem problem(kSizes, gradient);
  run(problem.all);
  for (size_t j = 0; j < problem.all.size(); ++j) {
    const ClipRows& job = problem.all[j];
    bool near = true;
    for (int64_t r = 0; r < job.count; ++r) {
      double squares = 0, dot = 0;
      for (int64_t i = r * job.dim; i < (r + 1) * job.dim; ++i) {
        squares += static_cast<double>(job.rows[i]) * job.rows[i];
        dot += static_cast<double>(job.rows[i]) * problem.grads[j][i];
      }
      const double norm = std::sqrt(squares), scale = norm > job.max_norm ? job.max_norm / norm : 1;
      for (int64_t i = r * job.dim; i < (r + 1) * job.dim; ++i) {
        double want = (gradient ? problem.grads[j][i] : job.rows[i]) * scale;
        if (gradient && norm > job.max_norm) want -= scale * dot / squares * job.rows[i];
        near &= std::abs(job.out[i] - want) <= 1e-5 * (1 + std::abs(want));
      }
    }
    EXPECT_TRUE(near);
    EXPECT_EQ(problem.results[j].back(), -5.0f);  // Nothing is written behind.
  }
}

void RunOnCpu(const std::vector<ClipRows>& all) {
  ThreadFor pf(3);
  ClipAllRows(all, pf);
}

TEST(RowsAreClipped) {
  CheckFormula(RunOnCpu, false);
  CheckFormula(RunOnCard, false);
}

TEST(GradientsOfClippedRows) {
  CheckFormula(RunOnCpu, true);
  CheckFormula(RunOnCard, true);
}

// The card rounds as the CPU does, but for the roots' gradients, which the CPU takes in two ways.
TEST(TheBitsAreTheCpus) {
  for (const bool gradient : {false, true}) {
    Problem cpu(kSizes, gradient), card(kSizes, gradient);
    RunOnCpu(cpu.all);
    RunOnCard(card.all);
    for (size_t j = 0; j < kSizes.size(); ++j) {
      const int64_t by_vectors = gradient ? kSizes[j].count / 8 * 8 * kSizes[j].dim : 0;
      const int64_t rest = kSizes[j].count * kSizes[j].dim - by_vectors;
      EXPECT_TRUE(std::memcmp(cpu.results[j].data() + by_vectors, card.results[j].data() + by_vectors,
                              rest * sizeof(float)) == 0);
    }
  }
}

TEST(NumbersThatAreNoneStay) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const Array<float> rows = {nan, 1, infinity, 1};
  Array<float> out(4);
  ClipRows job;
  job.rows = rows.data();
  job.out = out.data();
  job.count = job.dim = 2;
  job.max_norm = 1;
  RunOnCard({job});
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(out[2]) && out[3] == 0);
}

}  // namespace
}  // namespace tf_booster
