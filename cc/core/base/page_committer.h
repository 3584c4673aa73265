// Commits memory before it is touched, on a thread of its own. The kernel clears a page when it is first touched: 2 MiB
// take 210 us, and 6 ms on a virtual machine whose host has to find the memory first. A batch of lookups that brings
// new rows takes 1 to 4 ms, so whoever knows which page comes next asks for it in time.
#ifndef TF_BOOSTER_CC_CORE_BASE_PAGE_COMMITTER_H_
#define TF_BOOSTER_CC_CORE_BASE_PAGE_COMMITTER_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

namespace tf_booster {

// Any thread may call. The thread starts with the first Ask; in a process forked later there is none, and nothing is
// committed ahead.
class PageCommitter {
 public:
  PageCommitter() = default;
  ~PageCommitter();
  PageCommitter(const PageCommitter&) = delete;
  PageCommitter& operator=(const PageCommitter&) = delete;

  // Asks for whole pages of mapped memory; what they hold stays. A wish: kernels before Linux 5.14 cannot do it, and
  // where more is asked for than is done, or no thread can be had, nothing happens.
  void Ask(void* memory, size_t bytes);

  // Call before memory is unmapped: nothing of it is committed afterwards.
  void Forget(void* memory, size_t bytes);

  // Returns when all that was asked for is done. For tests.
  void Wait();

 private:
  struct Piece {
    char* begin = nullptr;
    size_t bytes = 0;
    bool Overlaps(const char* memory, size_t size) const { return memory < begin + bytes && begin < memory + size; }
  };

  void Work();
  bool IsAnothers() const;  // In a forked process.

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> asked_;
  Piece current_;  // What the thread is at; no bytes: nothing.
  bool ends_ = false;
  std::thread thread_;
  // Whose the thread is. Read without the lock, which in a forked process nobody may ever let go of.
  std::atomic<pid_t> process_{0};
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_PAGE_COMMITTER_H_
