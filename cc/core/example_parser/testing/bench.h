// What the parser's benchmarks share.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_BENCH_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_BENCH_H_

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <random>
#include <vector>

namespace tf_booster::example_parser::testing {

inline double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

// Median seconds of each body, run in turns.
inline std::vector<double> Medians(int rounds, const std::vector<std::function<void()>>& bodies) {
  std::vector<std::vector<double>> seconds(bodies.size());
  for (int r = 0; r <= rounds; ++r) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      const double start = CpuSeconds();
      bodies[i]();
      if (r > 0) seconds[i].push_back(CpuSeconds() - start);
    }
  }
  std::vector<double> medians;
  for (auto& s : seconds) {
    std::sort(s.begin(), s.end());
    medians.push_back(s[s.size() / 2]);
  }
  return medians;
}

using Random = std::mt19937_64;

// Ids of a vocabulary of 2^`bits`, small ones oftener, as frequency-ordered ids are: uniform in the logarithm.
inline int64_t SmallId(Random& random, int bits) {
  const int width = 1 + static_cast<int>(random() % bits);
  return static_cast<int64_t>(random() & ((uint64_t{1} << width) - 1));
}

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_BENCH_H_
