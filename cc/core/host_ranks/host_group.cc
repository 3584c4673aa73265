#include "cc/core/host_ranks/host_group.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <utility>

#include "cc/core/host_ranks/host_layout.h"

namespace tf_booster {
namespace {

// How often a rank that waits looks whether the others still live.
constexpr long kLookNanoseconds = 200'000'000;

// Not private to the process: ranks share the word.
void FutexWait(std::atomic<uint32_t>* word, uint32_t seen) {
  const timespec limit = {0, kLookNanoseconds};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

// FNV-1a: the same in all ranks' processes.
uint64_t KeyOf(const std::string& name) {
  uint64_t key = 0xcbf29ce484222325;
  for (const char c : name) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return key == 0 ? 1 : key;
}

}  // namespace

Status HostGroup::Create(int32_t rank, int32_t size, std::unique_ptr<HostGroup>* group) {
  std::unique_ptr<HostGroup> made(new HostGroup(rank, size));
  TFB_RETURN_IF_ERROR(SharedMemory::Create(&made->own_));
  made->head_parts_.resize(size);
  TFB_RETURN_IF_ERROR(made->own_->Append(kHeadBytes, &made->head_parts_[rank]));
  made->heads_.resize(size);
  made->heads_[rank] = reinterpret_cast<RankHead*>(made->head_parts_[rank].data());
  made->heads_[rank]->rank = rank;
  made->heads_[rank]->size = size;
  *group = std::move(made);
  return Status();
}

HostGroup::~HostGroup() {
  if (thread_.joinable()) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    heads_[rank_]->bell.fetch_add(1);
    FutexWake(&heads_[rank_]->bell);
    thread_.join();
  }
  for (const int process : processes_) {
    if (process >= 0) close(process);
  }
}

Status HostGroup::Connect(const std::vector<std::string>& addresses) {
  opened_.resize(size_);
  processes_.assign(size_, -1);
  ended_ = std::vector<std::atomic<bool>>(size_);
  for (int32_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    TFB_RETURN_IF_ERROR(SharedMemory::Open(addresses[rank], &opened_[rank]));
    TFB_RETURN_IF_ERROR(opened_[rank]->Map(0, kHeadBytes, &head_parts_[rank]));
    heads_[rank] = reinterpret_cast<RankHead*>(head_parts_[rank].data());
    if (heads_[rank]->rank != rank || heads_[rank]->size != size_) {
      return Status(StatusCode::kNotFound, "HostGroup: " + addresses[rank] + " is not rank " + std::to_string(rank) +
                                               " of " + std::to_string(size_));
    }
    processes_[rank] = static_cast<int>(syscall(SYS_pidfd_open, opened_[rank]->process(), 0));
    if (processes_[rank] < 0) {
      return Status(StatusCode::kNotFound,
                    "HostGroup: the system does not tell when rank " + std::to_string(rank) + " ends (pidfd_open)");
    }
  }
  thread_ = std::thread([this] { Wait(); });
  return Status();
}

Status HostGroup::Channel(const std::string& name, HostChannel** channel) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<HostChannel>& found = channels_[name];
  if (found == nullptr) {
    const size_t place = channels_.size() - 1;
    if (place >= kMaxChannels) {
      channels_.erase(name);
      return Status(StatusCode::kResourceExhausted,
                    "more than " + std::to_string(kMaxChannels) + " collectives; '" + name + "' is one too many");
    }
    ChannelSlot* const slot = &heads_[rank_]->slots[place];
    found.reset(new HostChannel(this, name, KeyOf(name), slot));
    slot->key.store(KeyOf(name), std::memory_order_release);
  }
  *channel = found.get();
  return Status();
}

void HostGroup::Ring() {
  for (int32_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    heads_[rank]->bell.fetch_add(1);
    if (heads_[rank]->asleep.load() != 0) FutexWake(&heads_[rank]->bell);
  }
}

void HostGroup::WhenReceived(HostChannel* channel, Done done) {
  const int32_t missing = channel->MissingRank();
  if (missing < 0) return done(Status());
  RankHead* const own = heads_[rank_];
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back({channel, std::move(done)});
  }
  // The last message may have come in between, when the thread did not know of this channel.
  own->bell.fetch_add(1);
  if (own->asleep.load() != 0) FutexWake(&own->bell);
}

void HostGroup::Wait() {
  RankHead* const own = heads_[rank_];
  std::vector<std::pair<Waiting, Status>> over;
  while (true) {
    const uint32_t seen = own->bell.load();
    over.clear();
    Collect(&over);
    for (auto& [waiting, status] : over) waiting.done(status);
    if (!over.empty()) continue;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
    }
    // Who rings reads `asleep` after it has changed the bell: either it sees this, or FutexWait sees the change.
    own->asleep.store(1);
    FutexWait(&own->bell, seen);
    own->asleep.store(0);
    if (own->bell.load() == seen) FindEnded();
  }
}

void HostGroup::Collect(std::vector<std::pair<Waiting, Status>>* over) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto still = [this, over](Waiting& waiting) {
    const int32_t missing = waiting.channel->MissingRank();
    if (missing >= 0 && !ended_[missing]) return true;
    Status status = missing < 0 ? Status() : EndedError(*waiting.channel, missing);
    over->emplace_back(std::move(waiting), std::move(status));
    return false;
  };
  waiting_.erase(std::stable_partition(waiting_.begin(), waiting_.end(), still), waiting_.end());
}

void HostGroup::FindEnded() {
  for (int32_t rank = 0; rank < size_; ++rank) {
    pollfd process = {processes_[rank], POLLIN, 0};
    if (process.fd < 0 || ended_[rank] || poll(&process, 1, 0) != 1) continue;
    ended_[rank] = true;
    // Collect() has to be called again: the thread that sleeps on the bell is this one.
    heads_[rank_]->bell.fetch_add(1);
  }
}

Status HostGroup::EndedError(const HostChannel& channel, int32_t rank) const {
  return Status(StatusCode::kFailedPrecondition, "rank " + std::to_string(rank_) + " waits in the collective '" +
                                                     channel.name() + "' for rank " + std::to_string(rank) +
                                                     ", whose process has ended");
}

}  // namespace tf_booster
