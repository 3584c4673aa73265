// Whether the help of other threads pays, as measured: a sleeping thread costs its waker 10 us, comes 20 to 50 us late,
// and may come onto the caller's own processor; where processors are busy with other work it does not pay at all.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_HELP_CHOICE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_HELP_CHOICE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tf_booster {

// Any thread may call. What threads forget of each other's measurements does not matter.
class HelpChoice {
 public:
  // Whether to ask for help with the next batch. Most are done the better way, some the other way, to compare.
  bool Next() {
    const size_t batch = batches_.fetch_add(1, std::memory_order_relaxed);
    if (batch < kFirst) return true;
    const double with = with_.load(std::memory_order_relaxed), without = without_.load(std::memory_order_relaxed);
    if (with == 0 || without == 0) return with == 0;
    const bool help = with < kGain * without;
    // The worse of the two ways is, the more seldom it is tried: it costs 1 % of the time at the most.
    const double worse = std::max(with, without) / std::min(with, without);
    const auto interval = static_cast<size_t>(kInterval * std::min(worse * worse, 100.0));
    return batch % interval == 0 ? !help : help;
  }

  // A batch of `bytes` bytes took `ns`, from begin to end.
  void Add(bool helped, int64_t ns, size_t bytes) {
    if (bytes == 0 || batches_.load(std::memory_order_relaxed) <= kCold) return;
    std::atomic<double>& mean = helped ? with_ : without_;
    const double before = mean.load(std::memory_order_relaxed);
    const double measured = static_cast<double>(std::max<int64_t>(1, ns)) / static_cast<double>(bytes);
    // One that took very long met other work.
    const double now = before == 0 ? measured : before + (std::min(measured, before * 2) - before) / kMemory;
    mean.store(now, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kCold = 4;       // The first batches, which find no memory and no caches, do not count.
  static constexpr size_t kFirst = 8;      // Batches with help, before the first without.
  static constexpr size_t kInterval = 24;  // Batches from one trial to the next where both ways are equal.
  static constexpr double kGain = 0.95;    // Help that brings less is left to others.
  static constexpr double kMemory = 6;

  std::atomic<size_t> batches_{0};
  std::atomic<double> with_{0}, without_{0};  // Nanoseconds a byte.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_HELP_CHOICE_H_
