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
  int64_t Available(double kept_back = kKeptBack) const { return AvailableMemory(root_, kept_back); }

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
  // Cache that can be dropped.
  machine.Write("/sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 2000\nactive_file 1000\n");
  EXPECT_EQ(machine.Available(), 143000 - 20000);
  EXPECT_EQ(machine.Available(0.125), 143000 - 80000);
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
  machine.Write("/sys/fs/cgroup/memory/job/memory.stat",
                "inactive_file 7\ntotal_inactive_file 20\ntotal_active_file 3\n");
  EXPECT_EQ(machine.Available(), 50023);
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
  int64_t nothing = -1;
  EXPECT_FALSE(MachineMemory(1)->Grant(1, &nothing));
  EXPECT_EQ(nothing, 0);
  EXPECT_TRUE(MachineMemory(0.5) == MachineMemory(0.5) && MachineMemory(0.5) != MachineMemory());
  EXPECT_TRUE(left > 0 && left < int64_t{1} << 60);
}

}  // namespace
}  // namespace tf_booster
