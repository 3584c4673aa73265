// The seeds of the epochs of a shuffled dataset, as tf.data draws them.
#ifndef TF_BOOSTER_CC_TF_DATASETS_SEED_SEQUENCE_H_
#define TF_BOOSTER_CC_TF_DATASETS_SEED_SEQUENCE_H_

#include <cstdint>
#include <mutex>
#include <utility>

#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/lib/random/random.h"

namespace tf_booster {

// One number after another from Philox, as tf.data's shuffle consumes them.
class RandomNumbers {
 public:
  RandomNumbers(int64_t seed, int64_t seed2) : philox_(seed, seed2) {}

  uint32_t Next() {
    if (used_ == kGroup) {
      group_ = philox_();
      used_ = 0;
    }
    return group_[used_++];
  }

  // Of a fresh one: leaves out `count` numbers.
  void Skip(uint64_t count) {
    philox_.Skip(count / kGroup);
    used_ = kGroup;
    for (uint64_t i = 0; i < count % kGroup; ++i) Next();
  }

 private:
  using Philox = tensorflow::random::PhiloxRandom;
  static constexpr int kGroup = Philox::kResultElementCount;

  Philox philox_;
  Philox::ResultType group_;
  int used_ = kGroup;
};

// Belongs to the dataset, so that a second iterator over it continues the sequence. Any thread may call.
class SeedSequence {
 public:
  // Both seeds 0: drawn at random, now. Without `reshuffle` all epochs have the same seeds.
  SeedSequence(int64_t seed, int64_t seed2, bool reshuffle)
      : seed_((seed | seed2) == 0 ? tensorflow::random::New64() : seed),
        seed2_((seed | seed2) == 0 ? tensorflow::random::New64() : seed2),
        reshuffle_(reshuffle) {}

  int64_t seed() const { return seed_; }
  int64_t seed2() const { return seed2_; }
  bool reshuffle() const { return reshuffle_; }

  std::pair<int64_t, int64_t> Next() {
    if (!reshuffle_) return {seed_, seed2_};
    std::lock_guard<std::mutex> lock(mutex_);
    RandomNumbers numbers(seed_, seed2_);
    numbers.Skip(drawn_);
    drawn_ += 2;
    const int64_t first = numbers.Next();
    return {first, numbers.Next()};
  }

  // How many numbers were drawn: the state.
  int64_t drawn() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return drawn_;
  }
  void set_drawn(int64_t drawn) {
    std::lock_guard<std::mutex> lock(mutex_);
    drawn_ = drawn;
  }

 private:
  const int64_t seed_, seed2_;
  const bool reshuffle_;
  mutable std::mutex mutex_;
  int64_t drawn_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_SEED_SEQUENCE_H_
