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

// `Maker` makes items. Begun Begin(Item*) is called by one thread at a time, Finish(Item*) by any number. What Begin
// has written, and what Hold's bodies read, Finish leaves as it is. Stop() and Start() are called under a lock when a
// thread begins to sleep, and when it goes on.
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

  // A worker's life, until the end or Cancel.
  template <class Maker>
  void Work(Maker maker) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++awake_;
    }
    while (true) {
      if (!WaitForTurn(maker) || !Make(maker)) return;
      // The consumer that was woken up may wait for this processor; while it does, there soon is no room. Two threads,
      // 39 ids a record: 282 ns a record without it, 236 with it.
      std::this_thread::yield();
    }
  }

  enum class Taken { kItem, kEnd, kCancelled };

  // The next item, when it is done; see kAtOnce for who makes it. The end stays. A body of Hold that runs now may still
  // read what Begin has written.
  template <class Maker>
  Taken Take(std::shared_ptr<Item>* item, Maker maker) {
    std::shared_ptr<Entry> entry;
    bool room = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const bool at_once = Clock::now() - left_ < kAtOnce;
      ++inside_;
      bool waited = false;
      while (!cancelled_ && (entry = TakeDone()) == nullptr) {
        if (at_once && MostInWork() >= 2) consumer_works_ = true;
        if (ConsumerMayWork() && !beginning_) {
          MakeAsConsumer(maker, &lock);
          waited = false;
        } else if (ConsumerMayWork() && !waited) {
          lock.unlock();
          AwaitBeginning();
          lock.lock();
          waited = true;
        } else {
          ++waiting_;
          Sleep(maker, &done_, &lock);
          --waiting_;
        }
      }
      --inside_;
      left_ = Clock::now();
      if (entry == nullptr) return Taken::kCancelled;
      if (entry->end) return Taken::kEnd;
      room = 2 * static_cast<double>(entries_.size()) <= MostEntries() && MissesWorker();
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
  // A consumer that is back so soon has nothing else to do. It works in place of one of several workers, which sleeps
  // until the consumer stays away: nobody is woken up for an item, neither the consumer nor a worker.
  static constexpr std::chrono::microseconds kAtOnce{100};

  using Clock = std::chrono::steady_clock;

  struct Entry {
    Item item;
    bool end = false;
    bool done = false;
  };

  double MostInWork() const { return std::max(1.0, workers()); }
  double MostEntries() const { return 2 * MostInWork() + kSpare; }

  void AwaitBeginning() {
    const auto start = Clock::now();
    while (beginning_ && Clock::now() - start < kWaitAwake) std::this_thread::yield();
  }

  template <class Maker>
  bool WaitForTurn(Maker& maker) {
    if (beginning_) AwaitBeginning();
    std::unique_lock<std::mutex> lock(mutex_);
    while (!cancelled_ && !ended_ && !MayBegin()) {
      --awake_;
      Sleep(maker, &room_, &lock);
      ++awake_;
    }
    if (cancelled_ || ended_) return false;
    if (inside_ == 0 && Clock::now() - left_ >= kAtOnce) consumer_works_ = false;
    TakeTurn();
    return true;
  }

  template <class Maker>
  static void Sleep(Maker& maker, std::condition_variable* until, std::unique_lock<std::mutex>* lock) {
    maker.Stop();
    until->wait(*lock);
    maker.Start();
  }

  template <class Maker>
  void MakeAsConsumer(Maker& maker, std::unique_lock<std::mutex>* lock) {
    TakeTurn();
    consumer_at_work_ = true;
    lock->unlock();
    Make(maker);
    lock->lock();
    consumer_at_work_ = false;
  }

  // Begins an item and finishes it. False: that was the end.
  template <class Maker>
  bool Make(Maker& maker) {
    auto entry = std::make_shared<Entry>();
    Begun begun;
    {
      std::lock_guard<std::mutex> begin_lock(begin_mutex_);
      begun = maker.Begin(&entry->item);
      std::lock_guard<std::mutex> lock(mutex_);
      entry->end = begun == Begun::kEnd;
      entry->done = begun != Begun::kToFinish;
      if (entry->done) --in_work_;
      ended_ = entry->end;
      beginning_ = false;
      entries_.push_back(entry);
      if (ended_) room_.notify_all();
      if (MissesWorker()) room_.notify_one();  // The next one's turn.
      if (entry->done || (waiting_ > 0 && ConsumerMayWork())) done_.notify_all();
    }
    if (begun == Begun::kToFinish) {
      maker.Finish(&entry->item);
      if (Finished(entry.get())) done_.notify_all();
    }
    return begun != Begun::kEnd;
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
    return !beginning_ && !ended_ && HasRoom() && in_work_ + (consumer_at_work_ ? 0 : OfConsumer()) + 1 <= MostInWork();
  }
  bool ConsumerMayWork() const {
    return OfConsumer() > 0 && !consumer_at_work_ && !ended_ && HasRoom() && in_work_ + 1 <= MostInWork();
  }
  // Whether a worker sleeps for which there is something to do: those that are awake come round themselves.
  bool MissesWorker() const { return MayBegin() && awake_ + OfConsumer() + 1 <= MostInWork(); }
  // Of the items in work, those that are left to a consumer.
  int OfConsumer() const { return consumer_works_ && MostInWork() >= 2 ? 1 : 0; }
  bool HasRoom() const { return static_cast<double>(entries_.size()) < MostEntries(); }

  void TakeTurn() {
    beginning_ = true;
    ++in_work_;
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

  int awake_ = 0;                 // Workers that do not sleep.
  int inside_ = 0, waiting_ = 0;  // Consumers: in Take; asleep there.
  Clock::time_point left_;        // When one has left.
  bool consumer_works_ = false;   // Of several workers one less is wanted.
  bool consumer_at_work_ = false;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_ORDERED_LINE_H_
