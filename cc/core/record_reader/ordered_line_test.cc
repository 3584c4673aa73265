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

struct Waits {
  void Stop() {}
  void Start() {}
};

// Workers that make the numbers [0, count), each with a result; what finish does beside is the test's.
class Workers {
 public:
  Workers(Line* line, int threads, int count, std::function<void(int number)> finish) : line_(line) {
    for (int t = 0; t < threads; ++t) {
      threads_.emplace_back([this, count, finish] {
        const auto begin = [this, count](Item* item) {
          if (next_ == count) return Begun::kEnd;
          item->number = next_++;
          if (item->number % 7 != 3) return Begun::kToFinish;
          item->result = 10 * item->number;
          return Begun::kDone;
        };
        const auto end = [this, finish](Item* item) {
          finish(item->number);
          item->result = 10 * item->number;
        };
        line_->Work([] {}, begin, end, Waits());
      });
    }
  }
  ~Workers() {
    line_->Cancel();
    for (std::thread& thread : threads_) thread.join();
  }
  int next() const { return next_; }

 private:
  Line* const line_;
  std::atomic<int> next_{0};
  std::vector<std::thread> threads_;
};

void Idle(int number) {
  if (number % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(number * 37 % 400));
}

std::vector<int> TakeAll(Line* line) {
  std::vector<int> taken;
  std::shared_ptr<Item> item;
  while (line->Take(&item, Waits()) == Line::Taken::kItem) {
    EXPECT_EQ(item->result, 10 * item->number);
    taken.push_back(item->number);
  }
  return taken;
}

std::vector<int> Numbers(int count) {
  std::vector<int> numbers(count);
  for (int i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

TEST(ItemsComeOutInTheOrderOfTheirBegin) {
  for (const int threads : {1, 2, 5}) {
    for (const int count : {0, 1, 300}) {
      Line line(/*in_order=*/true);
      line.SetWorkers(threads);
      Workers workers(&line, threads, count, Idle);
      EXPECT_TRUE(TakeAll(&line) == Numbers(count));
      EXPECT_TRUE(TakeAll(&line).empty());  // The end stays.
    }
  }
}

TEST(WithoutOrderAllComeAndAQuickOneOvertakes) {
  Line line(/*in_order=*/false);
  line.SetWorkers(3);
  std::atomic<bool> hold{true};
  Workers workers(&line, 3, 300, [&](int number) {
    while (number == 0 && hold) std::this_thread::yield();
  });
  std::shared_ptr<Item> item;
  EXPECT_TRUE(line.Take(&item, Waits()) == Line::Taken::kItem);
  EXPECT_TRUE(item->number != 0);
  hold = false;
  std::vector<int> taken = TakeAll(&line);
  taken.push_back(item->number);
  std::sort(taken.begin(), taken.end());
  EXPECT_TRUE(taken == Numbers(300));
}

TEST(SeveralConsumersShareTheItems) {
  Line line(/*in_order=*/true);
  line.SetWorkers(2);
  Workers workers(&line, 2, 500, Idle);
  std::vector<std::vector<int>> taken(3);
  std::vector<std::thread> consumers;
  for (auto& mine : taken) consumers.emplace_back([&mine, &line] { mine = TakeAll(&line); });
  for (std::thread& consumer : consumers) consumer.join();
  std::vector<int> all;
  for (const auto& mine : taken) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_TRUE(all == Numbers(500));
}

TEST(NoMoreAreInWorkThanWorkersMay) {
  Line line(/*in_order=*/true);
  line.SetWorkers(1);
  std::atomic<int> most{0}, in_work{0};
  Workers workers(&line, 4, 400, [&](int number) {
    const int now = ++in_work;
    int before = most;
    while (before < now && !most.compare_exchange_weak(before, now)) {
    }
    Idle(number);
    --in_work;
  });
  std::shared_ptr<Item> item;
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(line.Take(&item, Waits()) == Line::Taken::kItem);
  EXPECT_EQ(most.load(), 1);
  line.SetWorkers(3);
  EXPECT_EQ(TakeAll(&line).size(), size_t{200});
  EXPECT_TRUE(most <= 3);
}

TEST(WorkersStopWhereNobodyTakes) {
  Line line(/*in_order=*/true);
  line.SetWorkers(2);
  Workers workers(&line, 2, 1000, [](int) {});
  for (int i = 0; i < 100 && workers.next() < 8; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(workers.next(), 8);
  EXPECT_TRUE(TakeAll(&line) == Numbers(1000));
}

TEST(CancelEndsAllWaits) {
  for (int round = 0; round < 30; ++round) {
    Line line(/*in_order=*/round % 2 == 0);
    line.SetWorkers(2);
    Workers workers(&line, 2, 1 << 30, Idle);
    std::vector<std::thread> consumers;
    for (int c = 0; c < 2; ++c) consumers.emplace_back([&line] { TakeAll(&line); });
    std::this_thread::sleep_for(std::chrono::microseconds(round * 53));
    line.Cancel();
    for (std::thread& consumer : consumers) consumer.join();
    std::shared_ptr<Item> item;
    EXPECT_TRUE(line.Take(&item, Waits()) == Line::Taken::kCancelled);
  }
}

TEST(WhatIsHeldIsWhatWasBegunAndNotTaken) {
  std::mt19937 random(1);
  Line line(/*in_order=*/true);
  line.SetWorkers(3);
  Workers workers(&line, 3, 600, Idle);
  std::atomic<bool> done{false};
  // Somebody looks all the time, while others take.
  std::thread onlooker([&] {
    while (!done) {
      line.Hold([&](const std::vector<const Item*>& items) {
        const int next = workers.next();
        for (size_t i = 0; i < items.size(); ++i) {
          EXPECT_EQ(items[i]->number, next - static_cast<int>(items.size()) + static_cast<int>(i));
        }
        std::this_thread::yield();
        EXPECT_EQ(workers.next(), next);
      });
    }
  });
  int taken = 0;
  std::shared_ptr<Item> item;
  while (line.Take(&item, Waits()) == Line::Taken::kItem) {
    ++taken;
    if (random() % 4 != 0) continue;
    line.Hold([&](const std::vector<const Item*>& items) {
      EXPECT_EQ(taken + static_cast<int>(items.size()), workers.next());
    });
  }
  EXPECT_EQ(taken, 600);
  done = true;
  onlooker.join();
}

}  // namespace
}  // namespace tf_booster
