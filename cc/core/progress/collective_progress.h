// How often this process has entered and left each collective: what a watchdog compares over ranks, from another
// thread, while a collective hangs.
#ifndef TF_BOOSTER_CC_CORE_PROGRESS_COLLECTIVE_PROGRESS_H_
#define TF_BOOSTER_CC_CORE_PROGRESS_COLLECTIVE_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <string>

namespace tf_booster {

struct CollectiveProgress {
  std::atomic<int64_t> entered{0};
  std::atomic<int64_t> left{0};
};

// The counts of the collective of this name, made at the first call; they live as long as the process. Thread-safe.
CollectiveProgress* ProgressOf(const std::string& collective);

// A line "<entered> <left> <name>\n" for each collective, in the order of names. Thread-safe.
std::string ProgressText();

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PROGRESS_COLLECTIVE_PROGRESS_H_
