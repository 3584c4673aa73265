// Exchanges whose rows and gradients stay in cards' memory. All that is about keys is done on the host, as without a
// card, and says here which rows a card has to add up (row_terms_gpu.h). Messages are the same to the word, so ranks
// with and without a card understand each other.
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_CARD_PLANS_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_CARD_PLANS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"
#include "cc/core/exchange/gradient_exchange.h"

namespace tf_booster {

// In place of ExpandRows: where in the message of rows each code's row begins, in words; -1 for code 0.
Status PlanExpand(const std::vector<ExpandPart>& parts, int64_t dim, const int64_t* slots, int64_t num_slots,
                  const int64_t* starts, const std::vector<int32_t*>& places, ParallelFor& pf);

// In place of SendGradients, which says what the arguments are; of `gradients` the matrices are not read.
struct SendPlan {
  // A stream's terms are rows of its gradient; the sum of row i goes to word to[i] of the message.
  struct Stream : RowTerms {
    std::vector<int32_t> to;
  };
  std::vector<Stream> streams;
  // What stands in front of the rows: words [head_begins[r], head_begins[r + 1]) are where rank r's chunk begins.
  std::vector<int32_t> heads, head_begins;
  std::vector<int32_t> starts;  // Of the chunks.
  int64_t words = 0;            // Of the message.
};
Status PlanSend(const GradientLayout& layout, const std::vector<SentProbe>& probes,
                const std::vector<LocalGradient>& gradients, const int64_t* notes, int32_t* splits, SendPlan* plan,
                ParallelFor& pf);

// What of each received chunk of gradients the host has to see: no less than its head.
struct HeadsToRead {
  std::vector<int64_t> begins;  // Of the chunks in the message.
  std::vector<int64_t> words;   // From there on.
  std::vector<int64_t> at;      // Where the copies lie one behind the other,
  int64_t total = 0;            // and how many words these are.
};
// `size`: of the message. Of `probes` only `received` is read. InvalidArgument where splits do not fit the message.
Status FindHeads(const GradientLayout& layout, const std::vector<MergedProbe>& probes, int64_t size,
                 const int32_t* splits, HeadsToRead* heads);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_CARD_PLANS_H_
