// The header of a chunk of gradients; exchange_layout.h has the whole chunk.
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_MESSAGE_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_MESSAGE_H_

#include <cstdint>

#include "cc/core/exchange/gradient_exchange.h"

namespace tf_booster {

// In place of a lane's number of rows: one for each key that the sender asked for, in their order. The usual case,
// which needs no places.
inline constexpr int32_t kAllKeys = -1;

// Notes are 64-bit words, so they start at an even word.
inline int64_t GradientNotesStart(const GradientLayout& layout) { return (1 + layout.num_lanes() + 1) / 2 * 2; }
inline int64_t GradientHeaderWords(const GradientLayout& layout) {
  return GradientNotesStart(layout) + 2 * layout.num_notes;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_MESSAGE_H_
