// The ranks of one host, which hand each other messages through shared memory: between two processes on two cores
// Horovod's sockets take 5 ms of the kernel's time for what takes 0.5 ms here (docs/scaling.md).
//
// A channel is a collective's name. Every round of it each rank sends one message, which all ranks read; the n-th
// rounds of all ranks belong together. Channels do not wait for each other, so ranks may come to them in any order.
#ifndef TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_GROUP_H_
#define TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_GROUP_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/status.h"
#include "cc/core/host_ranks/shared_memory.h"

namespace tf_booster {

struct RankHead;     // What stands at the beginning of a rank's memory.
struct ChannelSlot;  // What it says of one channel.
class HostGroup;

// One collective. A round is Prepare, Send, HostGroup::WhenReceived, Receive, Finish; one at a time.
class HostChannel {
 public:
  const std::string& name() const { return name_; }

  // 64-byte aligned memory for this rank's message. FailedPrecondition: a round is under way, or a rank has ended.
  Status Prepare(int64_t size, char** message);
  void Send();
  // What `rank` has sent, until Finish(). Valid once all ranks have sent.
  Status Receive(int32_t rank, const char** message, int64_t* size);
  void Finish();

 private:
  friend class HostGroup;
  HostChannel(HostGroup* group, std::string name, uint64_t key, ChannelSlot* slot);
  // The first rank that has not sent this round's message; -1 if all have.
  int32_t MissingRank();
  ChannelSlot* SlotOf(int32_t rank);

  HostGroup* const group_;
  const std::string name_;
  const uint64_t key_;
  std::vector<ChannelSlot*> slots_;               // By rank; null until it was seen.
  std::vector<std::array<MappedPart, 2>> parts_;  // By rank: where its messages of even and odd rounds are.
  std::atomic<bool> busy_{false};
  uint64_t round_ = 0;
  int64_t size_ = 0;
};

class HostGroup {
 public:
  using Done = std::function<void(const Status&)>;

  static Status Create(int32_t rank, int32_t size, std::unique_ptr<HostGroup>* group);
  // No round may be under way.
  ~HostGroup();

  int32_t rank() const { return rank_; }
  int32_t size() const { return size_; }
  std::string address() const { return own_->address(); }
  // By the address() of all ranks, this one's too. NotFound: one cannot be reached. Once, before any channel is made.
  Status Connect(const std::vector<std::string>& addresses);

  // Made at its first use; lives as long as the group. Thread-safe.
  Status Channel(const std::string& name, HostChannel** channel);
  // Calls `done` once all ranks have sent their messages of the channel's round: here, if they have, else in this
  // group's own thread. With an error, if a process has ended before it did.
  void WhenReceived(HostChannel* channel, Done done);

 private:
  friend class HostChannel;
  struct Waiting {
    HostChannel* channel;
    Done done;
  };
  HostGroup(int32_t rank, int32_t size) : rank_(rank), size_(size) {}
  void Ring();
  void Wait();
  // Takes those out of waiting_ that have all messages, or that will not get them.
  void Collect(std::vector<std::pair<Waiting, Status>>* over);
  void FindEnded();
  Status EndedError(const HostChannel& channel, int32_t rank) const;

  const int32_t rank_, size_;
  std::unique_ptr<SharedMemory> own_;
  std::vector<std::unique_ptr<SharedMemory>> opened_;  // By rank; null of this one.
  std::vector<MappedPart> head_parts_;
  std::vector<RankHead*> heads_;
  std::vector<int> processes_;  // File descriptors that tell a process's end; -1 of this rank.
  std::vector<std::atomic<bool>> ended_;

  std::mutex mutex_;  // Of what follows.
  std::map<std::string, std::unique_ptr<HostChannel>> channels_;
  std::vector<Waiting> waiting_;
  bool stop_ = false;
  std::mutex memory_mutex_;  // Of own_.
  std::thread thread_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HOST_RANKS_HOST_GROUP_H_
