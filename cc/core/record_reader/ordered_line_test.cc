#include "cc/core/record_reader/ordered_line.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

struct Item {
  int number = -1;
  int result = -1;
};
using Line = OrderedLine<Item>;

// Numbers [0, count), each with a result; what finishing does beside is the test's. Workers make them, and consumers
// that work.
class Numbers {
 public:
  Numbers(Line* line, int threads, int count, std::function<void(int number)> finish)
      : line_(line), count_(count), finish_(std::move(finish)) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { line_->Work(Maker{this}); });
  }
  ~Numbers() {
    line_->Cancel();
    for (std::thread& thread : threads_) thread.join();
  }

  Line::Taken Take(std::shared_ptr<Item>* item) { return line_->Take(item, Maker{this, /*consumer=*/true}); }

  std::vector<int> TakeAll() {
    std::vector<int> taken;
    std::shared_ptr<Item> item;
    while (Take(&item) == Line::Taken::kItem) {
      EXPECT_EQ(item->result, 10 * item->number);
      taken.push_back(item->number);
    }
    return taken;
  }

  int next() const { return next_; }
  int most_in_work() const { return most_in_work_; }
  void ForgetMostInWork() { most_in_work_ = 0; }
  int by_consumers() const { return by_consumers_; }

 private:
  struct Maker {
    Numbers* numbers;
    bool consumer = false;

    Begun Begin(Item* item) { return numbers->Begin(item); }
    void Finish(Item* item) { numbers->Finish(item, consumer); }
    void Stop() {}
    void Start() {}
  };

  Begun Begin(Item* item) {
    if (next_ == count_) return Begun::kEnd;
    item->number = next_++;
    if (item->number % 7 != 3) return Begun::kToFinish;
    item->result = 10 * item->number;
    return Begun::kDone;
  }

  void Finish(Item* item, bool consumer) {
    const int now = ++in_work_;
    int before = most_in_work_;
    while (before < now && !most_in_work_.compare_exchange_weak(before, now)) {
    }
    finish_(item->number);
    item->result = 10 * item->number;
    by_consumers_ += consumer;
    --in_work_;
  }

  Line* const line_;
  const int count_;
  const std::function<void(int number)> finish_;
  std::atomic<int> next_{0}, in_work_{0}, most_in_work_{0}, by_consumers_{0};
  std::vector<std::thread> threads_;
};

void Idle(int number) {
  if (number % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(number * 37 % 400));
}

void Sleep(int microseconds) { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }

std::vector<int> UpTo(int count) {
  std::vector<int> numbers(count);
  for (int i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

TEST(ItemsComeOutInTheOrderOfTheirBegin) {
  for (const int threads : {1, 2, 5}) {
    for (const int count : {0, 1, 300}) {
      Line line(/*in_order=*/true);
      line.SetWorkers(threads);
      Numbers numbers(&line, threads, count, Idle);
      EXPECT_TRUE(numbers.TakeAll() == UpTo(count));
      EXPECT_TRUE(numbers.TakeAll().empty());  // The end stays.
    }
  }
}

TEST(WithoutOrderAllComeAndAQuickOneOvertakes) {
  Line line(/*in_order=*/false);
  line.SetWorkers(3);
  std::atomic<bool> hold{true};
  Numbers numbers(&line, 3, 300, [&](int number) {
    while (number == 0 && hold) std::this_thread::yield();
  });
  std::shared_ptr<Item> item;
  EXPECT_TRUE(numbers.Take(&item) == Line::Taken::kItem);
  EXPECT_TRUE(item->number != 0);
  hold = false;
  std::vector<int> taken = numbers.TakeAll();
  taken.push_back(item->number);
  std::sort(taken.begin(), taken.end());
  EXPECT_TRUE(taken == UpTo(300));
}

TEST(SeveralConsumersShareTheItems) {
  for (const int workers : {1, 2, 4}) {
    Line line(/*in_order=*/true);
    line.SetWorkers(workers);
    Numbers numbers(&line, workers, 500, Idle);
    std::vector<std::vector<int>> taken(3);
    std::vector<std::thread> consumers;
    for (auto& mine : taken) consumers.emplace_back([&mine, &numbers] { mine = numbers.TakeAll(); });
    for (std::thread& consumer : consumers) consumer.join();
    std::vector<int> all;
    for (const auto& mine : taken) {
      EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_TRUE(all == UpTo(500));
    EXPECT_TRUE(numbers.most_in_work() <= workers);
  }
}

TEST(NoMoreAreInWorkThanWorkersMay) {
  Line line(/*in_order=*/true);
  line.SetWorkers(1);
  Numbers numbers(&line, 4, 400, Idle);
  std::shared_ptr<Item> item;
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(numbers.Take(&item) == Line::Taken::kItem);
  EXPECT_EQ(numbers.most_in_work(), 1);
  line.SetWorkers(3);
  EXPECT_EQ(numbers.TakeAll().size(), size_t{200});
  EXPECT_TRUE(numbers.most_in_work() <= 3);
}

TEST(AConsumerThatComesBackAtOnceWorks) {
  Line line(/*in_order=*/true);
  line.SetWorkers(2);
  Numbers numbers(&line, 2, 1000, [](int) { Sleep(300); });
  EXPECT_TRUE(numbers.TakeAll() == UpTo(1000));
  EXPECT_TRUE(numbers.by_consumers() > 0);
  EXPECT_EQ(numbers.most_in_work(), 2);
}

TEST(AConsumerBesideOneWorkerDoesNot) {
  Line line(/*in_order=*/true);
  line.SetWorkers(1);
  Numbers numbers(&line, 1, 100, [](int) { Sleep(300); });
  EXPECT_TRUE(numbers.TakeAll() == UpTo(100));
  EXPECT_EQ(numbers.by_consumers(), 0);
}

TEST(AConsumerThatStaysAwayLeavesItToWorkers) {
  Line line(/*in_order=*/true);
  line.SetWorkers(2);
  Numbers numbers(&line, 2, 300, [](int) { Sleep(5000); });
  std::shared_ptr<Item> item;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(numbers.Take(&item) == Line::Taken::kItem);
    Sleep(200);
  }
  EXPECT_EQ(numbers.by_consumers(), 0);
  // It works, and goes: both workers do what is left, up to where they stop.
  while (numbers.by_consumers() == 0 && numbers.Take(&item) == Line::Taken::kItem) {
  }
  EXPECT_TRUE(numbers.by_consumers() > 0);
  Sleep(1000);
  numbers.ForgetMostInWork();
  const int end = item->number + 9;
  for (int i = 0; i < 1000 && numbers.next() < end; ++i) Sleep(1000);
  EXPECT_EQ(numbers.next(), end);
  EXPECT_EQ(numbers.most_in_work(), 2);
}

TEST(TheNumberOfWorkersMayChangeWhileConsumersWork) {
  Line line(/*in_order=*/true);
  line.SetWorkers(2);
  Numbers numbers(&line, 4, 2000, Idle);
  std::atomic<bool> done{false};
  std::thread tuner([&] {
    for (int i = 0; !done; ++i) {
      line.SetWorkers(1 + i * 7 % 4);
      Sleep(i * 53 % 300);
    }
  });
  EXPECT_TRUE(numbers.TakeAll() == UpTo(2000));
  done = true;
  tuner.join();
}

TEST(TheOnlyWorkerThatIsLeftGoesOnAfterAConsumer) {
  Line line(/*in_order=*/true);
  line.SetWorkers(2);
  const std::thread::id consumer = std::this_thread::get_id();
  std::atomic<bool> left{false}, done{false};
  Numbers numbers(&line, 2, 300, [&](int) {
    Sleep(300);
    if (std::this_thread::get_id() != consumer || left.exchange(true)) return;
    line.SetWorkers(1);
    Sleep(20000);  // All workers wait.
  });
  std::thread watchdog([&] {
    for (int i = 0; i < 1000 && !done; ++i) Sleep(10000);
    line.Cancel();
  });
  EXPECT_TRUE(numbers.TakeAll() == UpTo(300));
  EXPECT_TRUE(left);
  done = true;
  watchdog.join();
}

TEST(WorkersStopWhereNobodyTakes) {
  Line line(/*in_order=*/true);
  line.SetWorkers(2);
  Numbers numbers(&line, 2, 1000, [](int) {});
  for (int i = 0; i < 100 && numbers.next() < 8; ++i) Sleep(10000);
  Sleep(5000);
  EXPECT_EQ(numbers.next(), 8);
  EXPECT_TRUE(numbers.TakeAll() == UpTo(1000));
}

TEST(CancelEndsAllWaits) {
  for (int round = 0; round < 30; ++round) {
    Line line(/*in_order=*/round % 2 == 0);
    line.SetWorkers(2);
    Numbers numbers(&line, 2, 1 << 30, Idle);
    std::vector<std::thread> consumers;
    for (int c = 0; c < 2; ++c) consumers.emplace_back([&numbers] { numbers.TakeAll(); });
    Sleep(round * 53);
    line.Cancel();
    for (std::thread& consumer : consumers) consumer.join();
    std::shared_ptr<Item> item;
    EXPECT_TRUE(numbers.Take(&item) == Line::Taken::kCancelled);
  }
}

TEST(WhatIsHeldIsWhatWasBegunAndNotTaken) {
  std::mt19937 random(1);
  Line line(/*in_order=*/true);
  line.SetWorkers(3);
  Numbers numbers(&line, 3, 600, Idle);
  std::atomic<bool> done{false};
  // Somebody looks all the time, while others take.
  std::thread onlooker([&] {
    while (!done) {
      line.Hold([&](const std::vector<const Item*>& items) {
        const int next = numbers.next();
        for (size_t i = 0; i < items.size(); ++i) {
          EXPECT_EQ(items[i]->number, next - static_cast<int>(items.size()) + static_cast<int>(i));
        }
        std::this_thread::yield();
        EXPECT_EQ(numbers.next(), next);
      });
    }
  });
  int taken = 0;
  std::shared_ptr<Item> item;
  while (numbers.Take(&item) == Line::Taken::kItem) {
    ++taken;
    if (random() % 4 != 0) continue;
    line.Hold([&](const std::vector<const Item*>& items) {
      EXPECT_EQ(taken + static_cast<int>(items.size()), numbers.next());
    });
  }
  EXPECT_EQ(taken, 600);
  done = true;
  onlooker.join();
}

}  // namespace
}  // namespace tf_booster
