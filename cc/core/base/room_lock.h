// A lock with two rooms: any number of threads may be in one room, and nobody is then in the other. Readers of a table
// share the room kReading; the threads of a writer, which work on disjoint parts, share kWriting. Whoever waits for a
// room gets it when those inside have left: newcomers queue behind, so neither side starves the other.
//
// Inside a room a thread must not wait for other threads, nor enter again: then whoever waits outside waits for running
// threads only, and the threads of a shared pool may wait here.
#ifndef TF_BOOSTER_CC_CORE_BASE_ROOM_LOCK_H_
#define TF_BOOSTER_CC_CORE_BASE_ROOM_LOCK_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tf_booster {

class RoomLock {
 public:
  enum Room : int { kReading = 0, kWriting = 1 };

  void Enter(Room room) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (waiting_[1 - room] == 0 && (inside_ == 0 || open_ == room)) {
      open_ = room;
      ++inside_;
      return;
    }
    ++waiting_[room];
    const uint64_t before = openings_[room];
    opened_[room].wait(lock, [&] { return openings_[room] != before; });
  }

  void Leave() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--inside_ > 0) return;
    if (!Open(static_cast<Room>(1 - open_))) Open(open_);
  }

 private:
  // Lets all who wait for the room in and counts them as inside.
  bool Open(Room room) {
    if (waiting_[room] == 0) return false;
    open_ = room;
    inside_ = waiting_[room];
    waiting_[room] = 0;
    ++openings_[room];
    opened_[room].notify_all();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable opened_[2];
  uint64_t openings_[2] = {0, 0};
  int64_t waiting_[2] = {0, 0};
  int64_t inside_ = 0;
  Room open_ = kReading;
};

class RoomGuard {
 public:
  RoomGuard(RoomLock& lock, RoomLock::Room room) : lock_(lock) { lock_.Enter(room); }
  ~RoomGuard() { lock_.Leave(); }
  RoomGuard(const RoomGuard&) = delete;
  RoomGuard& operator=(const RoomGuard&) = delete;

 private:
  RoomLock& lock_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_ROOM_LOCK_H_
