// Counts of rows in 32 bits each, and the few that do not fit.
//
// A word below 2^31 is a count; another is 2^31 + the place where the pool holds it. A row whose frequency is that high
// was seen 2^31 times, so there are as many of them at most as the table saw keys, over 2^31: the pool is never larger
// than that, and exists before a batch that may need it begins.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_COUNT_POOL_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_COUNT_POOL_H_

#include <cstdint>
#include <mutex>
#include <vector>

namespace tf_booster {

class CountPool {
 public:
  static constexpr uint32_t kPooled = uint32_t{1} << 31;
  static constexpr int64_t kGreatest = int64_t{kPooled} - 1;  // That a word holds itself.

  // Places for `size` counts in all; may throw std::bad_alloc and changes nothing then. Nobody else is here.
  void Reserve(int64_t size);
  // Forgets all counts, and gives the memory back.
  void Clear();

  int64_t Read(uint32_t word) const { return word < kPooled ? word : values_[word - kPooled]; }

  // Puts `value`, at least 0, where `*word` was. Threads may write different words at once; for what does not fit there
  // is a place by Reserve.
  void Write(int64_t value, uint32_t* word) {
    if ((static_cast<uint64_t>(value) | *word) < kPooled) {
      *word = static_cast<uint32_t>(value);
    } else {
      WritePooled(value, word);
    }
  }

  int64_t bytes() const { return static_cast<int64_t>(values_.capacity() * sizeof(int64_t)); }

 private:
  void WritePooled(int64_t value, uint32_t* word);

  std::mutex mutex_;  // Of the places that are free, not of the counts: each of those has one writer.
  std::vector<int64_t> values_;
  int64_t used_ = 0;         // Places that were taken at least once.
  int64_t first_free_ = -1;  // Free ones below `used_` are a list.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_COUNT_POOL_H_
