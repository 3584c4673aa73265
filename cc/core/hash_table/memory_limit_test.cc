// What is left of memory, read from made-up /proc and /sys.
#include "cc/core/hash_table/memory_limit.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

// A folder that stands for the root of a machine.
class FakeMachine {
 public:
  FakeMachine() {
    char name[] = "/tmp/memory_limit_test_XXXXXX";
    root_ = mkdtemp(name);
    Write("/proc/meminfo", "MemTotal:  6400 kB\nMemFree: 1 kB\nMemAvailable:    3200 kB\n");
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  int64_t Available() const { return AvailableMemory(root_); }

 private:
  std::string root_;
};

constexpr int64_t kOfMachine = (3200 - 200) * 1024;  // A 32nd of the total is kept back.

TEST(ReadsTheMachine) { EXPECT_EQ(FakeMachine().Available(), kOfMachine); }

TEST(KnowsNoLimitWhereNothingIsTold) { EXPECT_EQ(AvailableMemory("/nonexistent"), INT64_MAX); }

TEST(ReadsCgroupsOfVersion2AndThoseAbove) {
  FakeMachine machine;
  machine.Write("/proc/self/cgroup", "0::/pod/job\n");
  machine.Write("/sys/fs/cgroup/pod/job/memory.max", "max\n");
  machine.Write("/sys/fs/cgroup/pod/job/memory.current", "1000\n");
  EXPECT_EQ(machine.Available(), kOfMachine);
  machine.Write("/sys/fs/cgroup/pod/memory.max", "640000\n");
  machine.Write("/sys/fs/cgroup/pod/memory.current", "500000\n");
  EXPECT_EQ(machine.Available(), 140000 - 20000);
  machine.Write("/sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 3000\n");  // Cache that can be dropped.
  EXPECT_EQ(machine.Available(), 143000 - 20000);
  machine.Write("/sys/fs/cgroup/pod/job/memory.max", "1100\n");
  EXPECT_EQ(machine.Available(), 100 - 34);
  machine.Write("/sys/fs/cgroup/pod/job/memory.max", "900\n");
  EXPECT_EQ(machine.Available(), 0);
}

TEST(ReadsCgroupsOfVersion1) {
  FakeMachine machine;
  machine.Write("/proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/job\n");
  machine.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  machine.Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "64000\n");
  machine.Write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "12000\n");
  EXPECT_EQ(machine.Available(), 50000);
}

TEST(ReadsACgroupThatIsTheRoot) {
  FakeMachine machine;
  machine.Write("/proc/self/cgroup", "0::/\n");
  machine.Write("/sys/fs/cgroup/memory.max", "64000\n");
  machine.Write("/sys/fs/cgroup/memory.current", "12000\n");
  EXPECT_EQ(machine.Available(), 50000);
}

TEST(GrantsWhatThereIs) {
  int64_t left = -1;
  EXPECT_TRUE(MachineMemory()->Grant(4096, &left));
  EXPECT_TRUE(MachineMemory()->Grant(4096, &left));
  EXPECT_FALSE(MachineMemory()->Grant(int64_t{1} << 60, &left));
  EXPECT_TRUE(left > 0 && left < int64_t{1} << 60);
}

}  // namespace
}  // namespace tf_booster
