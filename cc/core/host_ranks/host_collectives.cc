#include "cc/core/host_ranks/host_collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tf_booster {
namespace {

// A message: what it is, how many chunks it has (one: the same for all ranks), their sizes; then, from the next cache
// line on, the chunks. The sender's own chunk has size 0.
struct MessageHead {
  int64_t tag, count;
};
constexpr int64_t kLine = 64;

int64_t HeadBytes(int64_t count) { return (sizeof(MessageHead) + count * sizeof(int64_t) + kLine - 1) / kLine * kLine; }

Status SendMessage(HostChannel* channel, int64_t tag, const std::vector<Bytes>& chunks) {
  const int64_t count = static_cast<int64_t>(chunks.size());
  int64_t size = HeadBytes(count);
  for (const Bytes& chunk : chunks) size += chunk.size;
  char* message = nullptr;
  TFB_RETURN_IF_ERROR(channel->Prepare(size, &message));
  const MessageHead head = {tag, count};
  std::memcpy(message, &head, sizeof(head));
  char* sizes = message + sizeof(head);
  char* to = message + HeadBytes(count);
  for (const Bytes& chunk : chunks) {
    std::memcpy(sizes, &chunk.size, sizeof(int64_t));
    sizes += sizeof(int64_t);
    if (chunk.size > 0) std::memcpy(to, chunk.data, chunk.size);
    to += chunk.size;
  }
  channel->Send();
  return Status();
}

// The part of `count` numbers that `rank` adds up.
int64_t SliceBegin(int64_t count, int32_t rank, int32_t size) { return count * rank / size; }

Status AddUpReceived(HostGroup* group, HostChannel* channel, const AllReduceCall& call, int64_t count, const char* own,
                     char* into) {
  std::vector<const char*> parts;
  for (int32_t rank = 0; rank < group->size(); ++rank) {
    Bytes chunk = {own, count * call.item};
    if (rank != group->rank()) TFB_RETURN_IF_ERROR(ReceiveChunk(*group, channel, rank, call.tag, &chunk));
    if (chunk.size != count * call.item) {
      return Status(StatusCode::kInvalidArgument,
                    "the collective '" + channel->name() + "': rank " + std::to_string(rank) + " has " +
                        std::to_string(chunk.size) + " bytes where this rank has " + std::to_string(count * call.item) +
                        "; all ranks must run the same graph");
    }
    parts.push_back(chunk.data);
  }
  call.add_up(parts, count, into);
  return Status();
}

// Two ranks: each reads all that the other has.
void ReduceWhole(HostGroup* group, HostChannel* channel, const AllReduceCall& call, HostGroup::Done done) {
  const Status sent = SendToAll(channel, call.tag, {call.in, call.count * call.item});
  if (!sent.ok()) return done(sent);
  group->WhenReceived(channel, [group, channel, call, done = std::move(done)](const Status& arrived) {
    const Status status = arrived.ok() ? AddUpReceived(group, channel, call, call.count, call.in, call.out) : arrived;
    channel->Finish();
    done(status);
  });
}

// The sums of all ranks' slices, one after another.
void GatherSums(HostGroup* group, HostChannel* sums, const AllReduceCall& call, HostGroup::Done done) {
  const int32_t size = group->size(), own = group->rank();
  const int64_t begin = SliceBegin(call.count, own, size) * call.item;
  const int64_t end = SliceBegin(call.count, own + 1, size) * call.item;
  const Status sent = SendToAll(sums, call.tag, {call.out + begin, end - begin});
  if (!sent.ok()) return done(sent);
  group->WhenReceived(sums, [group, sums, call, done = std::move(done)](const Status& arrived) {
    Status status = arrived;
    for (int32_t rank = 0; rank < group->size() && status.ok(); ++rank) {
      Bytes chunk;
      if (rank == group->rank()) continue;
      status = ReceiveChunk(*group, sums, rank, call.tag, &chunk);
      // Its size is right: each rank has compared what it got before it sent this.
      if (status.ok() && chunk.size > 0) {
        std::memcpy(call.out + SliceBegin(call.count, rank, group->size()) * call.item, chunk.data, chunk.size);
      }
    }
    sums->Finish();
    done(status);
  });
}

}  // namespace

Status SendChunks(const HostGroup& group, HostChannel* channel, int64_t tag, const std::vector<Bytes>& chunks) {
  std::vector<Bytes> sent = chunks;
  sent[group.rank()] = Bytes();
  return SendMessage(channel, tag, sent);
}

Status SendToAll(HostChannel* channel, int64_t tag, Bytes chunk) { return SendMessage(channel, tag, {chunk}); }

Status ReceiveChunk(const HostGroup& group, HostChannel* channel, int32_t rank, int64_t tag, Bytes* chunk) {
  const char* message = nullptr;
  int64_t size = 0;
  TFB_RETURN_IF_ERROR(channel->Receive(rank, &message, &size));
  MessageHead head = {};
  std::memcpy(&head, message, sizeof(head));
  if (head.tag != tag) {
    return Status(StatusCode::kInvalidArgument, "the collective '" + channel->name() + "': rank " +
                                                    std::to_string(rank) +
                                                    " has a tensor of another type or shape; all ranks must run the "
                                                    "same graph");
  }
  std::vector<int64_t> sizes(head.count);
  std::memcpy(sizes.data(), message + sizeof(head), head.count * sizeof(int64_t));
  const int64_t place = head.count == 1 ? 0 : group.rank();
  chunk->data = message + HeadBytes(head.count);
  for (int64_t i = 0; i < place; ++i) chunk->data += sizes[i];
  chunk->size = sizes[place];
  return Status();
}

template <typename T>
void AddUpOf(const std::vector<const char*>& parts, int64_t count, char* into) {
  constexpr int64_t kBlock = 2048;  // The sum stays in the first-level cache.
  T sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    std::memcpy(sum, parts[0] + begin * sizeof(T), n * sizeof(T));
    for (size_t part = 1; part < parts.size(); ++part) {
      const T* const other = reinterpret_cast<const T*>(parts[part]) + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] += other[i];
    }
    std::memcpy(into + begin * sizeof(T), sum, n * sizeof(T));
  }
}
template void AddUpOf<float>(const std::vector<const char*>&, int64_t, char*);
template void AddUpOf<double>(const std::vector<const char*>&, int64_t, char*);
template void AddUpOf<int32_t>(const std::vector<const char*>&, int64_t, char*);
template void AddUpOf<int64_t>(const std::vector<const char*>&, int64_t, char*);

void AllReduce(HostGroup* group, const std::string& name, const AllReduceCall& call, HostGroup::Done done) {
  HostChannel *channel = nullptr, *sums = nullptr;
  Status status = group->Channel(name, &channel);
  if (!status.ok()) return done(status);
  if (group->size() == 2) return ReduceWhole(group, channel, call, std::move(done));
  status = group->Channel(name + " (sums)", &sums);
  if (!status.ok()) return done(status);
  std::vector<Bytes> chunks;
  for (int32_t rank = 0; rank < group->size(); ++rank) {
    const int64_t begin = SliceBegin(call.count, rank, group->size());
    const int64_t end = SliceBegin(call.count, rank + 1, group->size());
    chunks.push_back({call.in + begin * call.item, (end - begin) * call.item});
  }
  status = SendChunks(*group, channel, call.tag, chunks);
  if (!status.ok()) return done(status);
  group->WhenReceived(channel, [group, channel, sums, call, own = chunks[group->rank()],
                                done = std::move(done)](const Status& arrived) mutable {
    char* const into = call.out + SliceBegin(call.count, group->rank(), group->size()) * call.item;
    const Status added =
        arrived.ok() ? AddUpReceived(group, channel, call, own.size / call.item, own.data, into) : arrived;
    channel->Finish();
    if (!added.ok()) return done(added);
    GatherSums(group, sums, call, std::move(done));
  });
}

}  // namespace tf_booster
