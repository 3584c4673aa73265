// Cache lines that somebody reads soon. Who has work of the same length to do meanwhile fetches them one by one as it
// goes: so the misses are under way beside its own, where fetching all at once would wait for the miss buffers.
#ifndef TF_BOOSTER_CC_CORE_BASE_LINES_AHEAD_H_
#define TF_BOOSTER_CC_CORE_BASE_LINES_AHEAD_H_

#include <cstdint>

namespace tf_booster {

// Into the second-level cache: the first level has a dozen miss buffers only, and loads wait behind them. Inlined by
// force, as every function must be that only calls it: GCC takes them for pure and drops their calls.
#define TFB_FETCHES __attribute__((always_inline))

TFB_FETCHES inline void FetchLine(const void* line) { __builtin_prefetch(line, /*write=*/0, /*locality=*/2); }

struct LinesAhead {
  const void* const* lines = nullptr;
  int64_t size = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_LINES_AHEAD_H_
