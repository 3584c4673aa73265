// ParsedSlices between batches: they keep their memory, and the order in which the last records had their keys.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_SLICE_POOL_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_SLICE_POOL_H_

#include <memory>
#include <mutex>
#include <vector>

#include "cc/core/base/processor_slot.h"
#include "cc/core/example_parser/example_parser.h"

namespace tf_booster {

// Holds as many slices as were ever in use at once, and gives each processor those that came back from it, if there are
// any. Any thread may call; slots other than the caller's are for tests.
class SlicePool {
 public:
  using Slice = example_parser::ParsedSlice;

  // Appends `n` slices to `slices`.
  void Take(size_t n, std::vector<std::unique_ptr<Slice>>* slices, size_t slot = ProcessorSlot()) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < n; ++i) {
      if (auto* const free = free_.FindFrom(slot)) {
        slices->push_back(std::move(free->back()));
        free->pop_back();
      } else {
        slices->push_back(std::make_unique<Slice>());
      }
    }
  }

  void Give(std::vector<std::unique_ptr<Slice>> slices, size_t slot = ProcessorSlot()) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& free = free_[slot];
    for (auto& slice : slices) free.push_back(std::move(slice));
  }

 private:
  std::mutex mutex_;
  BySlot<std::vector<std::unique_ptr<Slice>>> free_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_SLICE_POOL_H_
