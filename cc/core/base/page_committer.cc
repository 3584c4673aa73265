#include "cc/core/base/page_committer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>

#include "cc/core/base/huge_page_pieces.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14.
#endif

namespace tf_booster {
namespace {

constexpr size_t kMostPieces = 256;  // Half a gigabyte of huge pages.

}  // namespace

PageCommitter::~PageCommitter() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool PageCommitter::IsAnothers() const {
  const pid_t process = process_;
  return process != 0 && process != getpid();
}

void PageCommitter::Ask(void* memory, size_t bytes) {
  if (IsAnothers()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (process_ == 0) {
    // Signals are for the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { Work(); });
      process_ = getpid();
    } catch (const std::exception&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (process_ == 0) return;
  // In pieces, so that Forget waits for one of them only.
  try {
    for (size_t done = 0; done < bytes && asked_.size() < kMostPieces; done += kHugePage) {
      asked_.push_back({static_cast<char*>(memory) + done, std::min(kHugePage, bytes - done)});
    }
  } catch (const std::bad_alloc&) {
  }
  changed_.notify_all();
}

void PageCommitter::Forget(void* memory, size_t bytes) {
  if (IsAnothers()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  const char* begin = static_cast<const char*>(memory);
  asked_.erase(std::remove_if(asked_.begin(), asked_.end(), [&](const Piece& p) { return p.Overlaps(begin, bytes); }),
               asked_.end());
  changed_.notify_all();  // Wait may be over.
  changed_.wait(lock, [&] { return current_.bytes == 0 || !current_.Overlaps(begin, bytes); });
}

void PageCommitter::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return asked_.empty() && current_.bytes == 0; });
}

void PageCommitter::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !asked_.empty(); });
    if (ends_) return;
    current_ = asked_.front();
    asked_.pop_front();
    lock.unlock();
    madvise(current_.begin, current_.bytes, MADV_POPULATE_WRITE);
    lock.lock();
    current_.bytes = 0;
    changed_.notify_all();
  }
}

}  // namespace tf_booster
