// Ranks as threads of one process, each with a group of its own: they share nothing but the memory that is tested.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "cc/core/base/test.h"
#include "cc/core/host_ranks/host_collectives.h"

namespace tf_booster {
namespace {

std::vector<std::unique_ptr<HostGroup>> Groups(int32_t size) {
  std::vector<std::unique_ptr<HostGroup>> groups(size);
  std::vector<std::string> addresses;
  for (int32_t rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(HostGroup::Create(rank, size, &groups[rank]).ok());
    addresses.push_back(groups[rank]->address());
  }
  for (auto& group : groups) EXPECT_EQ(group->Connect(addresses).message(), "");
  return groups;
}

// Lets a thread wait for what WhenReceived or AllReduce will call.
class Over {
 public:
  HostGroup::Done done() {
    return [this](const Status& status) {
      std::lock_guard<std::mutex> lock(mutex_);
      status_ = status;
      over_ = true;
      changed_.notify_one();
    };
  }
  Status Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
    over_ = false;
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  Status status_;
};

template <typename Run>
void OnRanks(int32_t size, Run run) {
  auto groups = Groups(size);
  std::vector<std::thread> threads;
  for (auto& group : groups) threads.emplace_back([&run, &group] { run(group.get()); });
  for (std::thread& thread : threads) thread.join();
}

std::string Exchanged(HostGroup* group, HostChannel* channel, const std::vector<Bytes>& chunks, Over* over) {
  if (!SendChunks(*group, channel, 7, chunks).ok()) return "not sent";
  group->WhenReceived(channel, over->done());
  if (!over->Wait().ok()) return "not received";
  std::string all;
  for (int32_t rank = 0; rank < group->size(); ++rank) {
    Bytes chunk = chunks[rank];
    if (rank != group->rank() && !ReceiveChunk(*group, channel, rank, 7, &chunk).ok()) return "not read";
    if (chunk.size > 0) all.append(chunk.data, chunk.size);
    all += '|';
  }
  channel->Finish();
  return all;
}

// What rank `from` sends to rank `to`: longer and shorter from round to round, often nothing.
std::string TextOf(int32_t from, int32_t to, int round) {
  std::mt19937 random(from * 10007 + to * 101 + round);
  const int64_t size = random() % 3 == 0 ? 0 : random() % (round % 50 == 49 ? 300000 : 200);
  return std::string(size, static_cast<char>('a' + random() % 26));
}

TEST(MessagesOfManyRoundsComeToTheirRanks) {
  for (const int32_t size : {2, 3, 5}) {
    OnRanks(size, [size](HostGroup* group) {
      HostChannel* channel = nullptr;
      EXPECT_TRUE(group->Channel("ids", &channel).ok());
      Over over;
      for (int round = 0; round < 300; ++round) {
        std::vector<std::string> texts;
        for (int32_t to = 0; to < size; ++to) texts.push_back(TextOf(group->rank(), to, round));
        std::vector<Bytes> chunks;
        for (const std::string& text : texts) chunks.push_back({text.data(), static_cast<int64_t>(text.size())});
        std::string wanted;
        for (int32_t from = 0; from < size; ++from) wanted += TextOf(from, group->rank(), round) + "|";
        const std::string got = Exchanged(group, channel, chunks, &over);
        EXPECT_TRUE(got == wanted);
        if (got != wanted) return;
      }
    });
  }
}

TEST(ChannelsDoNotWaitForEachOther) {
  OnRanks(3, [](HostGroup* group) {
    std::vector<int> order(40);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(group->rank()));
    std::vector<HostChannel*> channels(order.size());
    std::vector<Over> overs(order.size());
    for (int round = 0; round < 5; ++round) {
      for (const int i : order) {
        EXPECT_TRUE(group->Channel("c" + std::to_string(i), &channels[i]).ok());
        const int64_t value = group->rank() * 1000 + i;
        EXPECT_TRUE(SendToAll(channels[i], i, {reinterpret_cast<const char*>(&value), 8}).ok());
        group->WhenReceived(channels[i], overs[i].done());
      }
      for (const int i : order) {
        EXPECT_TRUE(overs[i].Wait().ok());
        for (int32_t rank = 0; rank < 3; ++rank) {
          Bytes chunk;
          EXPECT_TRUE(ReceiveChunk(*group, channels[i], rank, i, &chunk).ok());
          EXPECT_EQ(*reinterpret_cast<const int64_t*>(chunk.data), rank * 1000 + i);
        }
        channels[i]->Finish();
      }
    }
  });
}

template <typename T>
void CheckSums(int32_t size, int64_t count) {
  const auto value = [](int32_t rank, int64_t i) { return static_cast<T>((i * 7919 + rank * 31) % 1000) / T(3); };
  OnRanks(size, [&](HostGroup* group) {
    for (const bool in_place : {false, true, false}) {
      std::vector<T> in(count), out(count);
      for (int64_t i = 0; i < count; ++i) in[i] = value(group->rank(), i);
      T* const to = in_place ? in.data() : out.data();
      Over over;
      AllReduceCall call = {
          reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(to), count, sizeof(T), 3, AddUpOf<T>};
      AllReduce(group, "sum", call, over.done());
      EXPECT_EQ(over.Wait().message(), "");
      int64_t wrong = 0;
      for (int64_t i = 0; i < count; ++i) {
        T sum = value(0, i);
        for (int32_t rank = 1; rank < size; ++rank) sum += value(rank, i);
        wrong += to[i] != sum;
      }
      EXPECT_EQ(wrong, 0);
    }
  });
}

TEST(SumsAreThoseInTheOrderOfRanks) {
  for (const int32_t size : {2, 3, 4}) {
    for (const int64_t count : {0, 1, 2, 3, 5000, 70001}) CheckSums<float>(size, count);
    CheckSums<double>(size, 4097);
    CheckSums<int32_t>(size, 4097);
    CheckSums<int64_t>(size, 4097);
  }
}

TEST(RanksThatDifferAreToldSo) {
  OnRanks(2, [](HostGroup* group) {
    HostChannel* channel = nullptr;
    EXPECT_TRUE(group->Channel("typed", &channel).ok());
    Over over;
    EXPECT_TRUE(SendToAll(channel, group->rank(), {"x", 1}).ok());
    EXPECT_FALSE(SendToAll(channel, group->rank(), {"x", 1}).ok());  // Its round is under way.
    group->WhenReceived(channel, over.done());
    EXPECT_TRUE(over.Wait().ok());
    Bytes chunk;
    const Status status = ReceiveChunk(*group, channel, 1 - group->rank(), group->rank(), &chunk);
    EXPECT_TRUE(status.message().find("another type or shape") != std::string::npos);
    channel->Finish();
    // The sizes of an all-reduce.
    std::vector<float> numbers(100 + group->rank(), 1.0f);
    AllReduceCall call = {reinterpret_cast<const char*>(numbers.data()),
                          reinterpret_cast<char*>(numbers.data()),
                          100 + group->rank(),
                          sizeof(float),
                          1,
                          AddUpOf<float>};
    AllReduce(group, "sum", call, over.done());
    EXPECT_TRUE(over.Wait().message().find("has 40") != std::string::npos);
  });
}

TEST(AMissingRankIsNoticed) {
  std::unique_ptr<HostGroup> group;
  EXPECT_TRUE(HostGroup::Create(0, 2, &group).ok());
  EXPECT_EQ(static_cast<int>(group->Connect({group->address(), "1:2:3:4"}).code()),
            static_cast<int>(StatusCode::kNotFound));
  EXPECT_FALSE(group->Connect({group->address(), "nonsense"}).ok());
  // Itself is not rank 1.
  EXPECT_TRUE(group->Connect({group->address(), group->address()}).message().find("is not rank 1 of 2") !=
              std::string::npos);
}

// The child is a rank that sends one message and ends.
TEST(ARankThatEndsIsNoticed) {
  int to_child[2], to_parent[2];
  EXPECT_TRUE(pipe(to_child) == 0 && pipe(to_parent) == 0);
  const pid_t child = fork();
  const int32_t rank = child == 0 ? 1 : 0;
  std::unique_ptr<HostGroup> group;
  if (!HostGroup::Create(rank, 2, &group).ok()) _exit(1);
  char address[100] = {}, other[100] = {};
  group->address().copy(address, 99);
  if (write(child == 0 ? to_parent[1] : to_child[1], address, 100) != 100) _exit(2);
  if (read(child == 0 ? to_child[0] : to_parent[0], other, 100) != 100) _exit(3);
  const Status found =
      group->Connect(child == 0 ? std::vector<std::string>{other, address} : std::vector<std::string>{address, other});
  HostChannel* channel = nullptr;
  Over over;
  if (child == 0) {
    if (!found.ok() || !group->Channel("last", &channel).ok() || !SendToAll(channel, 1, {"bye", 3}).ok()) _exit(4);
    group->WhenReceived(channel, over.done());
    _exit(over.Wait().ok() ? 0 : 5);
  }
  EXPECT_EQ(found.message(), "");
  EXPECT_TRUE(group->Channel("last", &channel).ok());
  EXPECT_TRUE(SendToAll(channel, 1, {"", 0}).ok());
  int ended = -1;
  EXPECT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
  // What it sent before it ended still counts.
  group->WhenReceived(channel, over.done());
  EXPECT_TRUE(over.Wait().ok());
  Bytes chunk;
  EXPECT_TRUE(ReceiveChunk(*group, channel, 1, 1, &chunk).ok());
  EXPECT_EQ(std::string(chunk.data, chunk.size), "bye");
  channel->Finish();
  EXPECT_TRUE(SendToAll(channel, 1, {"", 0}).ok());
  group->WhenReceived(channel, over.done());
  EXPECT_TRUE(over.Wait().message().find("for rank 1, whose process has ended") != std::string::npos);
  channel->Finish();
}

}  // namespace
}  // namespace tf_booster
