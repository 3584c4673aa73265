// A piece of a file in memory, with the records that lie in it. Records are parsed where they were read to.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_BLOCK_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "cc/core/base/processor_slot.h"
#include "cc/core/base/status.h"

namespace tf_booster {

// Bytes that are not cleared: a fresh std::vector of 1 MiB costs more than reading into it.
class BlockBuffer {
 public:
  BlockBuffer() = default;
  BlockBuffer(const BlockBuffer&) = delete;
  BlockBuffer& operator=(const BlockBuffer&) = delete;
  ~BlockBuffer() { std::free(data_); }

  char* data() { return data_; }
  size_t capacity() const { return capacity_; }

  // Makes room for `capacity` bytes and keeps the first `used`. False: there is no such memory.
  bool Grow(size_t capacity, size_t used);

 private:
  char* data_ = nullptr;
  size_t capacity_ = 0;
};

struct RecordBlock {
  struct Place {
    size_t start, size;     // Of the record's bytes in the buffer.
    uint64_t next_in_file;  // Where the next record begins in the file, as it is without compression.
  };
  BlockBuffer buffer;
  std::vector<Place> records;
  // What comes behind the records: more of the file (last is false), its end, or an error that ends it.
  bool last = false;
  Status end;
  // The batch that holds this block already; 0: none. Only for the thread that makes batches.
  uint64_t held_by_batch = 0;
  size_t slot = 0;  // Of the processor that took it last. Only for the pool.
};

// Blocks that nobody holds any more are used again: the kernel clears each fresh page, which costs as much as reading
// it. Each processor has those that it took before; another one's are taken where a quarter of `max_free` is unused.
// Any thread may call. The pool lives as long as a block of it.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  // Keeps unused blocks of at most `max_free` bytes together.
  explicit BlockPool(size_t max_free) : max_free_(max_free) {}

  // The process's, of 16 MiB: an evaluation's iterator takes over the memory of the one before it.
  static const std::shared_ptr<BlockPool>& Shared();

  // For the processor that runs the caller, unless a test says another.
  std::shared_ptr<RecordBlock> Take(size_t slot = ProcessorSlot());

 private:
  void Give(std::unique_ptr<RecordBlock> block);

  const size_t max_free_;
  std::mutex mutex_;
  size_t free_bytes_ = 0;
  BySlot<std::vector<std::unique_ptr<RecordBlock>>> free_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_BLOCK_H_
