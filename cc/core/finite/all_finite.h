// Whether all numbers of many arrays are finite, as a loss scale asks of all gradients. By bits alone: a number is not
// finite if its exponent has ones only.
#ifndef TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_H_
#define TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/host_device.h"
#include "cc/core/base/parallel_for.h"

namespace tf_booster {

template <class Word>
struct Words {
  const Word* data = nullptr;
  int64_t n = 0;
};

template <class Word>
TFB_HOST_DEVICE bool IsFiniteWord(Word word, Word exponent) {
  return (word & exponent) != exponent;
}

// Word: uint16_t, uint32_t or uint64_t. exponent: the bits of a number that are its exponent.
template <class Word>
bool AreAllFinite(const std::vector<Words<Word>>& all, Word exponent, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_FINITE_ALL_FINITE_H_
