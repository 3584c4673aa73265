// The card's multi-hot rows, run by the host, and, compiled by nvcc, on a card; the CPU's beside them.
#include "cc/core/columns/multi_hot_body.h"

#include <limits>
#include <random>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/columns/multi_hot.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace {

using gpu::Array;

void RunOnCard(const std::vector<MultiHot>& all) {
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::WriteMultiHotsAsync(all, nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(3);
  gpu::WriteMultiHotsOn(queue, all);
#endif
}

void RunOnCpu(const std::vector<MultiHot>& all) {
  ThreadFor pf(3);
  WriteMultiHots(all, pf);
}

struct Feature {
  int64_t rows, of_row, depth;
  bool apart;
};

// What is asked for, element by element.
float Wanted(const MultiHot& m, int64_t row, int64_t column) {
  float count = 0;
  for (int64_t i = 0; i < m.of_row; ++i) {
    const int64_t id = m.ids[row * m.of_row + i];
    if (id >= 0 && id < m.depth && column == id + (m.apart ? i * m.depth : 0)) count += 1;
  }
  return count;
}

// `shift`: floats from a pack's beginning on.
void Check(const std::vector<Feature>& features, int64_t shift, void (*run)(const std::vector<MultiHot>&)) {
  std::mt19937 random(7);
  std::vector<Array<int64_t>> ids;
  std::vector<Array<float>> results;
  std::vector<MultiHot> all;
  ids.reserve(features.size());
  results.reserve(features.size());
  for (const Feature& f : features) {
    ids.emplace_back(f.rows * f.of_row + 1, 0);
    for (int64_t& id : ids.back()) id = static_cast<int64_t>(random() % (f.depth + 4)) - 2;
    if (f.rows * f.of_row > 2) {
      ids.back()[0] = std::numeric_limits<int64_t>::min();
      ids.back()[1] = std::numeric_limits<int64_t>::max();
      ids.back()[2] = f.depth;
    }
    MultiHot m{ids.back().data(), f.rows, f.of_row, f.depth, f.apart, nullptr};
    results.emplace_back(f.rows * m.width() + shift + 1, -5.0f);
    m.out = results.back().data() + shift;
    all.push_back(m);
  }
  run(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const MultiHot& m = all[i];
    bool same = true;
    for (int64_t at = 0; at < m.rows * m.width(); ++at) {
      same = same && m.out[at] == Wanted(m, at / m.width(), at % m.width());
    }
    EXPECT_TRUE(same);
    EXPECT_EQ(m.out[m.rows * m.width()], -5.0f);  // Nothing is written behind.
  }
}

void CheckAll(void (*run)(const std::vector<MultiHot>&)) {
  for (const int64_t rows : {0, 1, 7, 300}) {
    for (const int64_t shift : {0, 1}) {
      Check({{rows, 1, 8, false}, {rows, 3, 5, false}, {rows, 20, 12, false}, {rows, 1, 1, false}}, shift, run);
      Check({{rows, 1, 8, true}, {rows, 3, 5, true}, {rows, 3, 4, true}, {rows, 0, 4, true}}, shift, run);
      Check({{rows, 0, 4, false}, {rows, 2, 1000, false}}, shift, run);
    }
  }
  Check(std::vector<Feature>(150, {9, 2, 4, false}), 0, run);  // More than a launch takes.
  Check({{5, 2, 3, false}, {0, 2, 3, false}, {11, 1, 6, true}}, 0, run);
}

TEST(CardWritesMultiHots) { CheckAll(RunOnCard); }
TEST(CpuWritesMultiHots) { CheckAll(RunOnCpu); }

}  // namespace
}  // namespace tf_booster
