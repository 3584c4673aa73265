// Items that several threads make at once, each of them its own from its begin to its end, and that come out in the
// order in which they were begun. Nothing is handed from thread to thread on the way: that would cost a wake-up, 50 us
// where threads sleep.
//
// A worker begins an item while no other does (it reads and gathers the records of a batch), finishes it beside all
// others (parses them), and goes on as long as there is room. Two locks, taken in this order: one is held while an item
// is begun, the other guards what is under way.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_ORDERED_LINE_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_ORDERED_LINE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tf_booster {

// What has become of an item that was begun.
enum class Begun { kToFinish, kDone, kEnd };

// `Waits` has Stop() and Start(), called under a lock when a thread begins to sleep, and when it goes on.
template <class Item>
class OrderedLine {
 public:
  // Without `in_order`, an item that is done overtakes those that are not.
  explicit OrderedLine(bool in_order) : in_order_(in_order) {}

  // At most so many items are in work at once. Any thread, at any time.
  void SetWorkers(double workers) {
    if (workers_.exchange(workers, std::memory_order_relaxed) >= workers) return;
    std::lock_guard<std::mutex> lock(mutex_);
    room_.notify_all();
  }
  double workers() const { return workers_.load(std::memory_order_relaxed); }

  // A worker's life, until the end or Cancel. `before()` is called between two items, without a lock;
  // Begun begin(Item*) by one worker at a time; finish(Item*) by any number. What begin has written, and what Hold's
  // bodies read, finish leaves as it is.
  template <class Before, class Begin, class Finish, class Waits>
  void Work(Before before, Begin begin, Finish finish, Waits waits) {
    for (bool end = false; !end;) {
      before();
      if (!WaitForTurn(waits)) return;
      auto entry = std::make_shared<Entry>();
      Begun begun;
      {
        std::lock_guard<std::mutex> begin_lock(begin_mutex_);
        begun = begin(&entry->item);
        end = begun == Begun::kEnd;
        std::lock_guard<std::mutex> lock(mutex_);
        entry->end = end;
        entry->done = begun != Begun::kToFinish;
        if (entry->done) --in_work_;
        ended_ = end;
        beginning_ = false;
        entries_.push_back(entry);
        end ? room_.notify_all() : room_.notify_one();  // The next one's turn.
        if (entry->done) done_.notify_all();
      }
      if (begun == Begun::kToFinish) {
        finish(&entry->item);
        if (Finished(entry.get())) done_.notify_all();
      }
      // The consumer that was woken up may wait for this processor; while it does, there soon is no room. Two threads,
      // 39 ids a record: 282 ns a record without it, 236 with it.
      std::this_thread::yield();
    }
  }

  enum class Taken { kItem, kEnd, kCancelled };

  // The next item, when it is done. The end stays. A body of Hold that runs now may still read what begin has written.
  template <class Waits>
  Taken Take(std::shared_ptr<Item>* item, Waits waits) {
    std::shared_ptr<Entry> entry;
    bool room = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      while (!cancelled_ && (entry = TakeDone()) == nullptr) {
        waits.Stop();
        done_.wait(lock);
        waits.Start();
      }
      if (entry == nullptr) return Taken::kCancelled;
      if (entry->end) return Taken::kEnd;
      room = 2 * static_cast<double>(entries_.size()) <= MostEntries();
    }
    if (room) room_.notify_one();
    *item = std::shared_ptr<Item>(entry, &entry->item);
    return Taken::kItem;
  }

  // Ends waits, and the lives of workers when they come round.
  void Cancel() {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    room_.notify_all();
    done_.notify_all();
  }
  const std::atomic<bool>& cancelled() const { return cancelled_; }

  // Calls body(items) while none is begun: those that were begun and not taken, in order, without the end. They may be
  // finished, and taken, meanwhile.
  template <class Body>
  auto Hold(Body body) {
    std::lock_guard<std::mutex> begin_lock(begin_mutex_);
    std::vector<std::shared_ptr<Entry>> held;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      held.assign(entries_.begin(), entries_.end());
    }
    std::vector<const Item*> items;
    for (const auto& entry : held) {
      if (!entry->end) items.push_back(&entry->item);
    }
    return body(items);
  }

 private:
  // A thread waits so long for its turn before it sleeps: to begin takes 50 to 150 us, and waking up as much again. Two
  // threads, 39 ids a record: 376 ns a record without it, 301 with it.
  static constexpr std::chrono::microseconds kWaitAwake{200};
  // So many items are done, or under way, beside two for each worker. Workers that stop there begin again when half of
  // all are left: who wakes up goes on for several items. Without those a worker would sleep, and be woken up, each
  // time that the consumer is late.
  static constexpr double kSpare = 4;

  struct Entry {
    Item item;
    bool end = false;
    bool done = false;
  };

  double MostInWork() const { return std::max(1.0, workers()); }
  double MostEntries() const { return 2 * MostInWork() + kSpare; }

  template <class Waits>
  bool WaitForTurn(Waits& waits) {
    if (beginning_) {
      const auto start = std::chrono::steady_clock::now();
      while (beginning_ && std::chrono::steady_clock::now() - start < kWaitAwake) std::this_thread::yield();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    while (!cancelled_ && !ended_ && !MayBegin()) {
      waits.Stop();
      room_.wait(lock);
      waits.Start();
    }
    if (cancelled_ || ended_) return false;
    beginning_ = true;
    ++in_work_;
    return true;
  }

  // Whether a consumer has something to take. It is woken up for each item: to wake it for two at a time saves both
  // sides 5 us an item, but leaves the queue behind it empty too long (26 sparse lists of 20 ids, two threads: 439 to
  // 474 ns a record so, 396 to 403 now; with histories 539 to 548, and 411 to 486; 39 ids 167, and 169 to 177).
  bool Finished(Entry* entry) {
    std::lock_guard<std::mutex> lock(mutex_);
    entry->done = true;
    --in_work_;
    return !in_order_ || entries_.front()->done;
  }

  // These need mutex_.
  bool MayBegin() const {
    return !beginning_ && in_work_ + 1 <= MostInWork() && static_cast<double>(entries_.size()) < MostEntries();
  }

  std::shared_ptr<Entry> TakeDone() {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if ((*it)->end) return it == entries_.begin() ? *it : nullptr;
      if ((*it)->done) {
        std::shared_ptr<Entry> entry = std::move(*it);
        entries_.erase(it);
        return entry;
      }
      if (in_order_) break;
    }
    return nullptr;
  }

  const bool in_order_;
  std::atomic<double> workers_{1};
  std::atomic<bool> cancelled_{false};  // Changes under mutex_.
  std::atomic<bool> beginning_{false};  // Likewise.

  std::mutex begin_mutex_;
  std::mutex mutex_;
  std::condition_variable room_, done_;         // For workers; for consumers.
  std::deque<std::shared_ptr<Entry>> entries_;  // In order.
  int64_t in_work_ = 0;                         // Items that are begun or finished at this moment.
  bool ended_ = false;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_ORDERED_LINE_H_
