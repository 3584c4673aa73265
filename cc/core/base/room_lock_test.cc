// The two rooms: never both occupied, and neither side waits for ever.
#include "cc/core/base/room_lock.h"

#include <atomic>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

TEST(RoomsExcludeEachOther) {
  RoomLock lock;
  std::atomic<int> inside[2] = {{0}, {0}};
  std::atomic<bool> met{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const auto room = static_cast<RoomLock::Room>(t % 2);
      for (int i = 0; i < 3000; ++i) {
        RoomGuard guard(lock, room);
        ++inside[room];
        if (inside[1 - room] != 0) met = true;
        if (i % 64 == 0) std::this_thread::yield();
        --inside[room];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(met);
}

// Neither thread leaves before both are inside. A lock that lets in one at a time hangs here.
TEST(ARoomHoldsSeveral) {
  for (const RoomLock::Room room : {RoomLock::kReading, RoomLock::kWriting}) {
    RoomLock lock;
    std::atomic<int> inside{0};
    const auto meet = [&] {
      RoomGuard guard(lock, room);
      ++inside;
      while (inside < 2) std::this_thread::yield();
    };
    std::thread other(meet);
    meet();
    other.join();
    EXPECT_EQ(inside.load(), 2);
  }
}

// Two threads that are always in the reading room, one leaving only after the other came, must let a writer in.
TEST(ReadersDoNotStarveAWriter) {
  RoomLock lock;
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!done) {
        RoomGuard guard(lock, RoomLock::kReading);
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 100; ++i) RoomGuard(lock, RoomLock::kWriting);
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace tf_booster
