// What parsing costs, as measured: it decides on how many threads a batch is worth, no more.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_PARSE_COST_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_PARSE_COST_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tf_booster {

// Any thread may call.
class ParseCost {
 public:
  double ns_per_byte() const { return ns_per_byte_.load(std::memory_order_relaxed); }

  // A batch of `bytes` bytes took `ns`. One that took very long met other work, not other records.
  void Add(int64_t ns, size_t bytes) {
    if (bytes == 0) return;
    const double before = ns_per_byte();
    const double now = std::clamp(static_cast<double>(ns) / bytes, before / 2, before * 2);
    ns_per_byte_.store(before + (now - before) / 8, std::memory_order_relaxed);
  }

 private:
  std::atomic<double> ns_per_byte_{0.5};  // 0.3 to 0.6: 39 features of one id, 26 of 20.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_PARSE_COST_H_
