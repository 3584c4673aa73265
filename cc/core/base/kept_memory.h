// Memory that is used again: the kernel clears each page of fresh memory, which costs as much as parsing into it (26
// ragged lists of 20 ids, batches of 4,096: 4,150 page faults a batch, 2.3 of 3.2 us a record). malloc keeps such
// memory too, or does not, as the state of its heap decides.
#ifndef TF_BOOSTER_CC_CORE_BASE_KEPT_MEMORY_H_
#define TF_BOOSTER_CC_CORE_BASE_KEPT_MEMORY_H_

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace tf_booster {

// Any thread may call.
class KeptMemory {
 public:
  static constexpr size_t kAlignment = 64;

  struct Block {
    char* data = nullptr;  // Aligned to kAlignment, and to no higher power of two: see Take.
    size_t bytes = 0;      // At least what was asked for.
    size_t before = 0;     // Bytes between where the allocation begins and data.
  };

  KeptMemory() = default;
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory();

  // Says how much a batch takes. With what is in use, as much is kept of dead blocks as was lately in use at once, and
  // two batches at least, but 256 MiB at the most: several batches are parsed at once, and others wait for their step.
  // Of larger batches that do not come again, what is kept grows smaller with each batch.
  void StartBatch(size_t bytes);

  // `data` is null where there is no memory. Large blocks begin at different places of a page: columns that lie a power
  // of two apart share one set of the first-level cache, and 39 of them cost three times the time of the stores.
  Block Take(size_t bytes);
  // What was taken, dead now.
  void Give(Block block);

  // Bytes of dead blocks. For tests.
  size_t kept() const;

 private:
  static constexpr size_t kBins = 8 * 64;
  static constexpr size_t kMostKept = size_t{256} << 20;

  static size_t BinOf(size_t bytes);
  static void Free(const Block& block);
  size_t Limit() const;  // Of what is kept. These need mutex_.
  void Trim();
  void Use(size_t bytes);

  mutable std::mutex mutex_;
  std::array<std::vector<Block>, kBins> free_;  // By size, in eighths of powers of two. The last one used at the end.
  size_t kept_ = 0;
  size_t used_ = 0;  // Bytes of blocks that were taken.
  size_t most_used_ = 0;
  size_t batches_ = 0;  // Bytes of two.
  size_t taken_ = 0;    // Blocks allocated.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_KEPT_MEMORY_H_
