#include "cc/core/hash_table/count_pool.h"

#include <algorithm>
#include <new>

namespace tf_booster {

void CountPool::Reserve(int64_t size) {
  const int64_t before = static_cast<int64_t>(values_.size());
  if (size <= before) return;
  if (size > int64_t{kPooled}) throw std::bad_alloc();
  values_.resize(std::max(size, std::min(2 * before, int64_t{kPooled})));
}

void CountPool::Clear() {
  std::vector<int64_t>().swap(values_);
  used_ = 0;
  first_free_ = -1;
}

void CountPool::WritePooled(int64_t value, uint32_t* word) {
  if (*word >= kPooled && value > kGreatest) {
    values_[*word - kPooled] = value;
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (*word >= kPooled) {
    values_[*word - kPooled] = first_free_;
    first_free_ = *word - kPooled;
    *word = static_cast<uint32_t>(value);
    return;
  }
  int64_t place = first_free_;
  if (place >= 0) {
    first_free_ = values_[place];
  } else {
    place = used_++;
  }
  values_[place] = value;
  *word = kPooled + static_cast<uint32_t>(place);
}

}  // namespace tf_booster
