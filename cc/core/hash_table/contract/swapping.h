// What holds of every table with two places for rows, a near one for some of them and a far one for the others: rows
// that steps use come near, and idle ones leave. Shared by the tests of host and disk, and of card and host.
//
// A Pair has the table with near memory for so many rows beside one with memory for all of them, which it compares at
// its end. pair.Step(keys, field, stepping): a step of both on distinct keys; those whose rows were near. `settling`:
// steps until what is used is near.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_SWAPPING_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_SWAPPING_H_

#include <map>

#include "cc/core/hash_table/contract/fields.h"

namespace tf_booster::contract {

inline constexpr int64_t kSwappedDim = 16;
inline constexpr int64_t kSwappedRowBytes = 2 * kSwappedDim * static_cast<int64_t>(sizeof(float));  // One slot.

inline TableOptions SwappedOptions(int fields = 1) {
  TableOptions options = fields == 1 ? OneField(kSwappedDim, 1) : ThreeFields(kSwappedDim);
  options.slot_initial_values = {0.5f};
  return options;
}

inline std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> keys(end - begin);
  std::iota(keys.begin(), keys.end(), begin);
  return keys;
}

// A step on the keys of each 400 in [0, end).
template <class Pair>
void StepThrough(Pair& pair, int64_t end, const std::vector<uint32_t>& stepping = {}) {
  for (int64_t begin = 0; begin < end; begin += 400) pair.Step(Range(begin, begin + 400), 0, stepping);
}

template <class Pair>
void UsedRowsComeNear(Pair& pair, int64_t settling) {
  for (const int64_t hot : {7000, 3000, 5500}) {
    const std::vector<int64_t> keys = Range(hot, hot + 300);
    EXPECT_TRUE(pair.Step(keys).size() < 300);
    for (int64_t step = 0; step < settling; ++step) pair.Step(keys);
    EXPECT_EQ(pair.Step(keys).size(), size_t{300});
  }
}

// Keys that are seen once do not drive out those that are seen again and again.
template <class Pair>
void AKeySeenOnceStaysWhereItIs(Pair& pair, int64_t settling) {
  for (int64_t step = 0; step < 40; ++step) {
    std::vector<int64_t> keys = Range(3000, 3400);
    for (const int64_t key : Range(10000 + 100 * step, 10000 + 100 * (step + 1))) keys.push_back(key);
    const std::vector<int64_t> near = pair.Step(keys);
    if (step > settling) EXPECT_TRUE(near == Range(3000, 3400));
  }
}

// The clock of a field that steps seldom, once in `every` steps, goes by its own steps. Of three fields.
template <class Pair>
void AFieldThatStepsSeldomIsNotIdle(Pair& pair, int64_t every) {
  StepThrough(pair, 4000, {0, 1});
  const std::vector<int64_t> keys = Range(-300, 0);
  for (int64_t step = 0; step < 60; ++step) {
    pair.Step(Range(0, 10), 0, {0, 1});
    if (step % every == 0) pair.Step(keys, 2, {2});
  }
  EXPECT_EQ(pair.Step(keys, 2, {2}).size(), size_t{300});
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_SWAPPING_H_
