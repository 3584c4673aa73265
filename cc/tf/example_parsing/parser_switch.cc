#include "cc/tf/example_parsing/parser_switch.h"

#include <atomic>

namespace tf_booster {
namespace {

std::atomic<bool> enabled{false};
constexpr int kBest = -1;
std::atomic<int> forced_level{kBest};

}  // namespace

bool FastParserEnabled() { return enabled.load(std::memory_order_relaxed); }

SimdLevel ParserSimdLevel() {
  const int level = forced_level.load(std::memory_order_relaxed);
  return level == kBest ? BestSimdLevel() : static_cast<SimdLevel>(level);
}

}  // namespace tf_booster

extern "C" {

__attribute__((visibility("default"))) void tf_booster_set_fast_parser(int enabled) {
  tf_booster::enabled.store(enabled != 0, std::memory_order_relaxed);
}

__attribute__((visibility("default"))) int tf_booster_fast_parser() { return tf_booster::FastParserEnabled() ? 1 : 0; }

__attribute__((visibility("default"))) int tf_booster_force_parser_simd(const char* name) {
  int forced = tf_booster::kBest;
  if (*name != '\0') {
    tf_booster::SimdLevel level;
    if (!tf_booster::SimdLevelFromName(name, &level) || !tf_booster::Runs(level)) return 1;
    forced = static_cast<int>(level);
  }
  tf_booster::forced_level.store(forced, std::memory_order_relaxed);
  return 0;
}
}
