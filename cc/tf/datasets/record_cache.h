// The stage of records that answers as tf.data's cache in memory does: the first who comes to the end leaves all
// records for those who begin after him.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_CACHE_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_CACHE_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/datasets/record_stream.h"

namespace tf_booster {

// Belongs to the dataset: all its iterators share it. Any thread may call.
class RecordCache {
 public:
  using Records = std::vector<std::string>;

  // Null: nobody has come to the end yet.
  std::shared_ptr<const Records> all() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return all_;
  }

  // Keeps `records` unless there are some. Returns those that are kept.
  std::shared_ptr<const Records> Keep(Records records) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (all_ == nullptr) all_ = std::make_shared<const Records>(std::move(records));
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Records> all_;
};

// The records of `input`, or of `cache` where it has them: then no input is made, and no shuffle in it draws seeds.
std::unique_ptr<RecordStream> CacheRecords(MakeRecordStream input, std::shared_ptr<RecordCache> cache);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_CACHE_H_
