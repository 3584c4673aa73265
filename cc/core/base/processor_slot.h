// Where a thread runs, for memory that each processor takes again which was the last to write there: a line comes later
// out of another processor's cache than out of its own.
#ifndef TF_BOOSTER_CC_CORE_BASE_PROCESSOR_SLOT_H_
#define TF_BOOSTER_CC_CORE_BASE_PROCESSOR_SLOT_H_

#include <sched.h>

#include <array>
#include <cstddef>

namespace tf_booster {

constexpr size_t kProcessorSlots = 8;

// The slot of the processor that the calling thread runs on now; many processors share one.
inline size_t ProcessorSlot() {
  const int processor = sched_getcpu();
  return processor < 0 ? 0 : static_cast<size_t>(processor) % kProcessorSlots;
}

// A container for each slot.
template <class Container>
class BySlot {
 public:
  Container& operator[](size_t slot) { return slots_[slot]; }

  // The first one that is not empty, from this slot on; null: all are.
  Container* FindFrom(size_t slot) {
    for (size_t i = 0; i < kProcessorSlots; ++i) {
      Container& found = slots_[(slot + i) % kProcessorSlots];
      if (!found.empty()) return &found;
    }
    return nullptr;
  }

 private:
  std::array<Container, kProcessorSlots> slots_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_PROCESSOR_SLOT_H_
