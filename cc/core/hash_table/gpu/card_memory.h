// How much memory a card has, and memory of the host for rows that it has no room for.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_CARD_MEMORY_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_CARD_MEMORY_H_

#include <cstdint>

#include "cc/core/base/allocator.h"

namespace tf_booster {

// Of the thread's card in all; 0 if it does not say.
int64_t CardBytes();

// Pinned, at addresses that the kernels of all cards can use, as far as the machine has it (memory_limit.h). Not
// zeroed. Free waits for the card, whose kernels may still be at it.
Allocator* PinnedMemory();

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_CARD_MEMORY_H_
