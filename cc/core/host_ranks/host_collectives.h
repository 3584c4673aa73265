// All-to-all, all-gather and all-reduce of bytes over the ranks of a host, on top of channels.
#ifndef TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_COLLECTIVES_H_
#define TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/status.h"
#include "cc/core/host_ranks/host_group.h"

namespace tf_booster {

struct Bytes {
  const char* data = nullptr;
  int64_t size = 0;
};

// Sends chunks[r] to each rank r but this one, and begins the channel's round. tag: what the message is, e.g. its type;
// it must be the same on all ranks. Only HostGroup::WhenReceived and the functions below may follow.
Status SendChunks(const HostGroup& group, HostChannel* channel, int64_t tag, const std::vector<Bytes>& chunks);
// The same bytes to all ranks.
Status SendToAll(HostChannel* channel, int64_t tag, Bytes chunk);
// What `rank`, another one or after SendToAll this one too, sent to this rank; valid until the channel's Finish().
// InvalidArgument: its tag is another one.
Status ReceiveChunk(const HostGroup& group, HostChannel* channel, int32_t rank, int64_t tag, Bytes* chunk);

// Adds `count` numbers up: into[i] = parts[0][i] + parts[1][i] + …, in this order. `into` may be one of the parts.
using AddUp = void (*)(const std::vector<const char*>& parts, int64_t count, char* into);
template <typename T>
void AddUpOf(const std::vector<const char*>& parts, int64_t count, char* into);

// An all-reduce: `out` becomes the sum over ranks, in their order, so that all have the same bits. It may be `in`.
// done: called once, in any thread. `name`: two channels are called after it.
struct AllReduceCall {
  const char* in = nullptr;
  char* out = nullptr;
  int64_t count = 0, item = 0;  // Numbers, and bytes of one.
  int64_t tag = 0;
  AddUp add_up = nullptr;
};
void AllReduce(HostGroup* group, const std::string& name, const AllReduceCall& call, HostGroup::Done done);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_COLLECTIVES_H_
