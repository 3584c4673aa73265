#include "cc/tf/kernels/host_ranks.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace tf_booster {
namespace {

// Neither is freed: the group's thread may outlive static objects.
std::atomic<HostGroup*> connected{nullptr};
HostGroup* made = nullptr;

int64_t Tell(const std::string& text, char* out, int64_t size) {
  const int64_t length = std::min<int64_t>(size - 1, text.size());
  std::memcpy(out, text.data(), length);
  out[length] = 0;
  return length;
}

}  // namespace

HostGroup* TheHostGroup() { return connected.load(std::memory_order_acquire); }

}  // namespace tf_booster

// Both for Python, by ctypes, once a process; they return 0, or 1 with what is wrong in `out`. The first writes this
// rank's address to `out`; the second takes those of all ranks, with spaces between.
extern "C" __attribute__((visibility("default"))) int32_t tf_booster_host_ranks_create(int32_t rank, int32_t size,
                                                                                       char* out, int64_t out_size) {
  std::unique_ptr<tf_booster::HostGroup> group;
  const tf_booster::Status status = tf_booster::HostGroup::Create(rank, size, &group);
  tf_booster::Tell(status.ok() ? group->address() : status.message(), out, out_size);
  tf_booster::made = group.release();
  return status.ok() ? 0 : 1;
}

extern "C" __attribute__((visibility("default"))) int32_t tf_booster_host_ranks_connect(const char* addresses,
                                                                                        char* out, int64_t out_size) {
  std::istringstream text(addresses);
  std::vector<std::string> all;
  for (std::string address; text >> address;) all.push_back(address);
  const tf_booster::Status status = tf_booster::made->Connect(all);
  tf_booster::Tell(status.message(), out, out_size);
  if (status.ok()) tf_booster::connected.store(tf_booster::made, std::memory_order_release);
  return status.ok() ? 0 : 1;
}
