// Initial rows of many keys at once, for this machine's processor: InitialRow's bits, faster where there is AVX2.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_INITIAL_ROW_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_INITIAL_ROW_H_

#include <cstdint>

#include "cc/core/base/cpu_features.h"
#include "cc/core/hash_table/initializer.h"

namespace tf_booster {

// rows[r] (dim floats) = the initial row of keys[r], with code of this level.
void WriteInitialRows(SimdLevel level, const RowInitializer& init, const int64_t* keys, int64_t n, int64_t dim,
                      float* const* rows);

// Rows that are written when there are some: one takes its time, for each operation waits for the one before it, but
// many go side by side.
class InitialRows {
 public:
  explicit InitialRows(int64_t dim) : dim_(dim) {}
  ~InitialRows() { Write(); }
  InitialRows(const InitialRows&) = delete;
  InitialRows& operator=(const InitialRows&) = delete;

  // `init` must outlive the next Write.
  void Add(const RowInitializer& init, int64_t key, float* row) {
    if (&init != init_ || count_ == kMost) Write();
    init_ = &init;
    keys_[count_] = key;
    rows_[count_++] = row;
  }

  // Those that are not written yet.
  void Write() {
    if (count_ > 0) WriteInitialRows(BestSimdLevel(), *init_, keys_, count_, dim_, rows_);
    count_ = 0;
  }

 private:
  static constexpr int64_t kMost = 64;

  const int64_t dim_;
  const RowInitializer* init_ = nullptr;
  int64_t count_ = 0;
  int64_t keys_[kMost];
  float* rows_[kMost];
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_INITIAL_ROW_H_
