// What stands at the beginning of a rank's memory, for all ranks of its host to read.
#ifndef TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_LAYOUT_H_
#define TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_LAYOUT_H_

#include <atomic>
#include <cstdint>

#include "cc/core/host_ranks/shared_memory.h"

namespace tf_booster {

// One channel of one rank. The message of round n is in messages[n % 2], written before `rounds` becomes n. It stays
// while round n + 1 is under way: a rank that sends its message of n + 1 has read all of n, and one that has all
// messages of n + 1 may so overwrite what it sent in n.
struct ChannelSlot {
  std::atomic<uint64_t> key;  // 0: no channel yet.
  std::atomic<uint64_t> rounds;
  struct Message {
    int64_t offset, capacity, size;
  } messages[2];
};
static_assert(sizeof(ChannelSlot) == 64, "a cache line");

// Far more than the collectives of all graphs of a process.
inline constexpr int64_t kMaxChannels = 4096;

struct RankHead {
  alignas(64) int32_t rank;
  int32_t size;
  // Counts messages for this rank: a futex, which its waiting thread sleeps on.
  alignas(64) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> asleep;
  ChannelSlot slots[kMaxChannels];
};

inline constexpr int64_t kHeadBytes = (sizeof(RankHead) + kPage - 1) / kPage * kPage;

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_LAYOUT_H_
