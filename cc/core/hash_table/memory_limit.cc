#include "cc/core/hash_table/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>

namespace tf_booster {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// The number in a file that holds one; kUnknown for "max" and for no file.
int64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number;
  return file >> number ? number : kUnknown;
}

// The number behind `name` in a file of "name number" lines; `otherwise` where there is none.
int64_t ReadNamed(const std::string& path, const std::string& name, int64_t otherwise) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string first;
    int64_t number;
    if (words >> first >> number && first == name) return number;
  }
  return otherwise;
}

int64_t LessReserve(int64_t free, int64_t total, double kept_back) {
  return std::max<int64_t>(0, free - static_cast<int64_t>(kept_back * static_cast<double>(total)));
}

// How a version of cgroups calls what is read of them.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  std::string of_stat;  // Stands before names in memory.stat.
};

// What one cgroup has left; a limit near 2^63 is v1's way to say that there is none.
int64_t CgroupLeft(const std::string& folder, const CgroupFiles& files, double kept_back) {
  const int64_t limit = ReadNumber(folder + "/" + files.limit);
  const int64_t usage = ReadNumber(folder + "/" + files.usage);
  if (limit >= (int64_t{1} << 60) || usage == kUnknown) return kUnknown;
  int64_t free = limit - usage;
  // Pages of files, in use or not: where memory gets scarce they go first.
  for (const char* cache : {"inactive_file", "active_file"}) {
    free += ReadNamed(folder + "/memory.stat", files.of_stat + cache, 0);
  }
  return LessReserve(free, limit, kept_back);
}

// The least of a cgroup and all those above it.
int64_t CgroupChainLeft(const std::string& root, std::string path, const CgroupFiles& files, double kept_back) {
  int64_t left = kUnknown;
  for (;;) {
    left = std::min(left, CgroupLeft(root + files.mount + path, files, kept_back));
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return left;
    path.resize(slash);
  }
}

class MachineMemoryImpl final : public MemoryProbe {
 public:
  explicit MachineMemoryImpl(double kept_back) : kept_back_(kept_back) {}

  bool Grant(int64_t bytes, int64_t* left) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > credit_) {
      const int64_t available = AvailableMemory("", kept_back_);
      if (bytes > available) {
        *left = available;
        return false;
      }
      credit_ = std::max(bytes, std::min(available / 64, int64_t{256} << 20));
    }
    credit_ -= bytes;
    return true;
  }

 private:
  const double kept_back_;
  std::mutex mutex_;
  int64_t credit_ = 0;
};

}  // namespace

int64_t AvailableMemory(const std::string& root, double kept_back) {
  static const CgroupFiles v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
  static const CgroupFiles v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", ""};
  const std::string meminfo = root + "/proc/meminfo";
  int64_t left = kUnknown;
  const int64_t available_kib = ReadNamed(meminfo, "MemAvailable:", -1);
  if (available_kib >= 0) {
    left = LessReserve(available_kib << 10, ReadNamed(meminfo, "MemTotal:", 0) << 10, kept_back);
  }
  // Lines are "0::/path" for v2 and "4:memory:/path" (among other controllers) for v1.
  std::ifstream cgroups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(cgroups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") {
      left = std::min(left, CgroupChainLeft(root, path, v2, kept_back));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, CgroupChainLeft(root, path, v1, kept_back));
    }
  }
  return left;
}

MemoryProbe* MachineMemory(double kept_back) {
  static std::mutex mutex;
  static auto* const memories = new std::map<double, MachineMemoryImpl>;  // Tables may outlive statics.
  std::lock_guard<std::mutex> lock(mutex);
  return &memories->try_emplace(kept_back, kept_back).first->second;
}

}  // namespace tf_booster
