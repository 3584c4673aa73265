// Ids to their owners, and rows back: the forward half of an exchange. All functions work on one rank's memory; what
// travels in between is the caller's.
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_ID_EXCHANGE_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_ID_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"
#include "cc/core/exchange/exchange_layout.h"

namespace tf_booster {

// Gives `words` words of memory for a message, 64-byte aligned.
using AllocateWords = FunctionRef<Status(int64_t words, int32_t** data)>;

// The distinct keys of one probe, as UniqueByField gives them: keys of a field stand together, fields in the order of
// the layout's.
struct RoutedProbe {
  const int64_t* keys = nullptr;
  const uint32_t* fields = nullptr;
  const int64_t* counts = nullptr;  // Sightings; read where the probe is counted.
  int64_t size = 0;
  int64_t* slots = nullptr;  // Out, [size].
  int32_t* sent = nullptr;   // Out, [ranks, segments]: keys that go to each rank.
};

// Writes the message of ids. `rows`: of this rank's batch, 0 where it must not count.
// Out: splits [ranks]: words for each rank. starts [probes, ranks]: where, in the message of rows that comes back, the
// rows of a probe from a rank begin; reply_splits [ranks]: how many words of it come from each rank.
// InvalidArgument: too many ids for one message.
Status RouteIds(const ExchangeLayout& layout, float rows, const std::vector<RoutedProbe>& probes,
                AllocateWords allocate, int32_t* splits, int64_t* starts, int64_t* reply_splits, ParallelFor& pf);

// The ids that came to this rank, the owner of all of them.
class ReceivedIds {
 public:
  // Borrows all arguments.
  Status Parse(const ExchangeLayout& layout, const int32_t* words, int64_t size, const int32_t* splits);

  // Rows of a rank's batch; 0: its ids are looked up, and not counted.
  float rows(int32_t rank) const { return rows_[rank]; }

  // Keys of all ranks of a probe; those of one rank; of one rank and segment.
  int64_t size(int64_t probe) const;
  int64_t size(int64_t probe, int32_t rank) const;
  int32_t size(int64_t probe, int32_t rank, int64_t segment) const { return Part(probe, rank, segment).size; }

  // Distinct keys of a probe over all ranks. codes [size(probe)], rank by rank and segment by segment: `first` + the
  // place of each key. merged [segments]: distinct keys of each segment, which stand together. Sightings are summed
  // over the ranks whose rows are above 0; a key that only others saw has the count 0.
  struct Merged {
    std::vector<int64_t> keys;
    std::vector<uint32_t> fields;
    std::vector<int64_t> counts;
    std::vector<int32_t> sizes;
  };
  Status Merge(int64_t probe, int64_t first, int64_t* codes, Merged* merged, ParallelFor& pf) const;

  // Words of the message of rows, and where in it the rows of a probe for a rank begin. InvalidArgument: too many.
  Status LayOutRows(int32_t* splits, int64_t* total, std::vector<std::vector<int64_t>>* starts) const;

 private:
  struct Keys {
    const int64_t* keys;
    const int32_t* sightings;
    int32_t size;
  };
  const Keys& Part(int64_t probe, int32_t rank, int64_t segment) const {
    return parts_[rank * num_segments_ + first_segment_[probe] + segment];
  }

  const ExchangeLayout* layout_ = nullptr;
  int64_t num_segments_ = 0;
  std::vector<int64_t> first_segment_;  // Of each probe.
  std::vector<float> rows_;
  std::vector<Keys> parts_;  // [ranks, segments of all probes].
};

// Takes keys that were not counted out of `merged`; their codes become 0, those of others follow.
void DropUncounted(int64_t first, int64_t size, int64_t* codes, ReceivedIds::Merged* merged);

// That a message of `words` words has the row of every slot. starts [ranks]: of the slots' probe.
Status CheckSlots(const int64_t* slots, int64_t num_slots, int64_t dim, const int64_t* starts, int64_t ranks,
                  int64_t words);

// values[i] = the row of code i; zeros for code 0. `reply`: the received message of rows. slots [u] and starts [ranks]:
// of this probe, as RouteIds gave them. InvalidArgument: a code of no key.
struct ExpandPart {
  const int64_t* codes = nullptr;
  int64_t size = 0;
  float* values = nullptr;  // [size, dim].
};
Status ExpandRows(const std::vector<ExpandPart>& parts, int64_t dim, const int32_t* reply, const int64_t* slots,
                  int64_t num_slots, const int64_t* starts, ParallelFor& pf);

// What is said of a code that names none of them.
Status WrongExpandCode(int64_t code, int64_t num_slots);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_ID_EXCHANGE_H_
