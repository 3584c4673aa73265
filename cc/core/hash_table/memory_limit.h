// How much memory a table may still take. Linux grants memory that it does not have and kills the process when it is
// touched, so growth is checked against what the machine and the cgroups of this process have left before it is tried.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_MEMORY_LIMIT_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace tf_booster {

class MemoryProbe {
 public:
  virtual ~MemoryProbe() = default;

  // Whether `bytes` more may be taken. If not, `*left` is what there is. Callable from any thread.
  virtual bool Grant(int64_t bytes, int64_t* left) = 0;
};

// What is kept back for everybody else: a 32nd of the total.
inline constexpr double kKeptBack = 1.0 / 32;

// The machine and its cgroups (v1 and v2), of which `kept_back` is left alone. One look serves all tables of the
// process until 1/64 of what was left, at most 256 MiB, is granted: a look reads a few files of /proc and /sys, about
// 50 us.
MemoryProbe* MachineMemory(double kept_back = kKeptBack);

// Bytes that can still be had by MemAvailable of `root`/proc/meminfo and the limits of the cgroups that
// `root`/proc/self/cgroup names, less `kept_back` of the total; file cache, which the kernel would give up, counts as
// free. Where nothing can be read: INT64_MAX.
int64_t AvailableMemory(const std::string& root, double kept_back = kKeptBack);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_MEMORY_LIMIT_H_
