#include "cc/core/base/processor_slot.h"

#include <sched.h>

#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

std::vector<int> Processors() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return {};
  std::vector<int> processors;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &mine)) processors.push_back(p);
  }
  return processors;
}

void RunOn(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

TEST(EachProcessorHasItsSlot) {
  const std::vector<int> processors = Processors();
  EXPECT_TRUE(!processors.empty());
  for (const int processor : processors) {
    RunOn(processor);
    EXPECT_EQ(ProcessorSlot(), static_cast<size_t>(processor) % kProcessorSlots);
  }
}

TEST(TheNextContainerThatIsNotEmptyIsFound) {
  BySlot<std::vector<int>> slots;
  for (size_t slot = 0; slot < kProcessorSlots; ++slot) EXPECT_TRUE(slots.FindFrom(slot) == nullptr);
  slots[2].push_back(1);
  slots[5].push_back(1);
  EXPECT_EQ(slots.FindFrom(2), &slots[2]);
  EXPECT_EQ(slots.FindFrom(3), &slots[5]);
  EXPECT_EQ(slots.FindFrom(5), &slots[5]);
  EXPECT_EQ(slots.FindFrom(6), &slots[2]);  // Around the end.
}

}  // namespace
}  // namespace tf_booster
