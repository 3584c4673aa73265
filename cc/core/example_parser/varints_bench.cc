// Packed varints a second at every level, beside a scalar and a PEXT loop. One thread, CPU time, medians; all take
// turns.
//
//   varints_bench [rounds = 60] [filter]
#include <x86intrin.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/testing/bench.h"
#include "cc/core/example_parser/testing/wire_builder.h"

namespace tf_booster::example_parser {
namespace {

using testing::Medians;
using testing::Random;
using testing::SmallId;

// What a simple decoder does, and what PEXT does for it.
size_t ScalarLoop(const uint8_t* p, const uint8_t* end, int64_t* out) {
  int64_t* const first = out;
  while (p < end) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint64_t byte = *p++;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    *out++ = static_cast<int64_t>(value);
  }
  return static_cast<size_t>(out - first);
}

__attribute__((target("bmi,bmi2"))) size_t PextLoop(const uint8_t* p, const uint8_t* end, int64_t* out) {
  int64_t* const first = out;
  while (p < end) {  // 16 bytes behind the end may be read.
    const uint64_t x = Load64(p);
    const uint64_t last = ~x & 0x8080808080808080;
    if (last != 0) {
      const uint64_t upto = last ^ (last - 1);
      *out++ = static_cast<int64_t>(_pext_u64(x & upto, 0x7f7f7f7f7f7f7f7f));
      p += (_tzcnt_u64(last) + 1) >> 3;
    } else {
      *out++ = static_cast<int64_t>(_pext_u64(x, 0x7f7f7f7f7f7f7f7f) | static_cast<uint64_t>(p[8] & 0x7f) << 56 |
                                    (p[8] >= 0x80 ? static_cast<uint64_t>(p[9]) << 63 : 0));
      p += p[8] >= 0x80 ? 10 : 9;
    }
  }
  return static_cast<size_t>(out - first);
}

void BenchVarints(const char* name, int rounds, const std::function<uint64_t(Random&)>& draw) {
  constexpr size_t kValues = 1 << 16;  // In and out stay in the second-level cache.
  Random random(7);
  std::string bytes;
  for (size_t i = 0; i < kValues; ++i) bytes += testing::Varint(draw(random));
  const size_t size = bytes.size();
  bytes.append(64, '\0');
  const uint8_t* p = reinterpret_cast<const uint8_t*>(bytes.data());
  std::vector<int64_t> out(kValues);
  std::vector<std::function<void()>> bodies = {[&] {
                                                 if (ScalarLoop(p, p + size, out.data()) != kValues) std::abort();
                                               },
                                               [&] {
                                                 if (!Runs(SimdLevel::kAvx2)) return;
                                                 if (PextLoop(p, p + size, out.data()) != kValues) std::abort();
                                               }};
  for (SimdLevel level : RunnableSimdLevels()) {
    bodies.push_back([&, level] {
      size_t count;
      const bool ok = ScanFor(level).decode_varints(p, size, p + bytes.size(), out.data(), kValues, &count);
      if (!ok || count != kValues) std::abort();
    });
  }
  const std::vector<double> seconds = Medians(rounds, bodies);
  std::printf("%-42s %5.2f B", name, static_cast<double>(size) / kValues);
  for (double s : seconds) std::printf(" %6.0f M/s (%4.1fx)", kValues / s * 1e-6, seconds[0] / s);
  std::printf("\n");
}

void Run(int rounds, const std::string& filter) {
  const auto wanted = [&](const char* name) { return std::string(name).find(filter) != std::string::npos; };
  std::printf("packed varints: scalar loop, PEXT loop, then");
  for (SimdLevel level : RunnableSimdLevels()) std::printf(" %s", SimdLevelName(level));
  std::printf("\n");
  const std::pair<const char*, std::function<uint64_t(Random&)>> varints[] = {
      {"varints, mixed 1 to 9 bytes",
       [](Random& random) { return (random() >> 1 | uint64_t{1} << 62) >> (62 - 7 * (random() % 9)); }},
      {"varints, 1 byte", [](Random& random) { return random() & 0x7f; }},
      {"varints, 1 to 3 bytes", [](Random& random) { return static_cast<uint64_t>(SmallId(random, 20)); }},
      {"varints, 64-bit hashes", [](Random& random) { return random(); }}};
  for (const auto& [name, draw] : varints) {
    if (wanted(name)) BenchVarints(name, rounds, draw);
  }
}

}  // namespace
}  // namespace tf_booster::example_parser

int main(int argc, char** argv) {
  tf_booster::example_parser::Run(argc > 1 ? std::atoi(argv[1]) : 60, argc > 2 ? argv[2] : "");
  return 0;
}
