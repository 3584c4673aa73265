// Lanes of gradients on their way out: which rows go to which rank, and where in the message they lie.
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_LANES_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_LANES_H_

#include <cstdint>
#include <vector>

#include "cc/core/exchange/gradient_exchange.h"
#include "cc/core/optimizer/gradient_sums.h"

namespace tf_booster {

struct OutLane {
  const SentProbe* probe;
  int64_t group;
  int64_t stream;
  int64_t first, size;            // The segment's keys, among the probe's.
  int64_t first_place;            // Of these keys, among those of the stream.
  std::vector<int64_t> row_base;  // Of the segment, among the probe's rows from each rank.
  std::vector<int64_t> keys;      // Of the segment, at each rank.
  std::vector<int64_t> rows;      // To send to each rank; counted by the caller before LayOut.
  std::vector<int64_t>
      places_at;                 // In each rank's chunk, where the next row's place goes; -1: all keys, without places.
  std::vector<int64_t> rows_at;  // In the message, where the next row goes; with all keys where the first one is.

  int64_t SlotOf(int64_t place) const { return probe->slots[first + place - first_place]; }
};

// The lanes of one stream. Its places are the keys of its lanes, numbered through.
class StreamLanes {
 public:
  StreamLanes(OutLane* lanes, int64_t num_lanes) : lanes_(lanes), num_lanes_(num_lanes) {}

  int64_t num_places() const {
    return num_lanes_ == 0 ? 0 : lanes_[num_lanes_ - 1].first_place + lanes_[num_lanes_ - 1].size;
  }
  OutLane* begin() const { return lanes_; }
  OutLane* end() const { return lanes_ + num_lanes_; }

  // GradientSums::kNoPlace for code 0, kWrongPlace for one that is of none of the lanes.
  int64_t PlaceOf(int64_t code) const {
    if (code == 0) return GradientSums::kNoPlace;
    const int64_t group = CodeGroup(code), place = CodePlace(code);
    for (const OutLane& lane : *this) {
      if (lane.group == group && place >= lane.first && place < lane.first + lane.size) {
        return lane.first_place + place - lane.first;
      }
    }
    return GradientSums::kWrongPlace;
  }

  OutLane& LaneOf(int64_t place) const {
    OutLane* lane = lanes_;
    while (place >= lane->first_place + lane->size) ++lane;
    return *lane;
  }

 private:
  OutLane* lanes_;
  int64_t num_lanes_;
};

// All lanes, and whose they are.
class GradientLanes {
 public:
  // Borrows both.
  GradientLanes(const GradientLayout& layout, const std::vector<SentProbe>& probes);

  StreamLanes of(int64_t stream) {
    return StreamLanes(lanes_.data() + first_lane_[stream], first_lane_[stream + 1] - first_lane_[stream]);
  }

  // Once the rows of all lanes are counted. splits [ranks]: words of each chunk. InvalidArgument: too many.
  Status LayOut(int32_t* splits);

  int64_t total() const { return starts_.back(); }                 // Words of the message.
  int64_t start(int32_t rank) const { return starts_[rank]; }      // Of its chunk in the message.
  int64_t head_words(int32_t rank) const { return heads_[rank]; }  // Of its chunk in front of the rows.

  // The header of a chunk, without places. `notes` may be null where there are none.
  void WriteHeader(int32_t rank, const int64_t* notes, int32_t* chunk) const;

  // Where in the message the next row of a lane goes, one of the key with this slot. chunk(rank): where its head is
  // written, which learns of the row's place if it must.
  template <class ChunkOf>
  static int64_t Put(OutLane& lane, int64_t slot, int64_t dim, ChunkOf chunk_of) {
    const int64_t rank = SlotRank(slot), key = SlotRow(slot) - lane.row_base[rank];
    if (lane.places_at[rank] < 0) return lane.rows_at[rank] + key * dim;
    chunk_of(rank)[lane.places_at[rank]++] = static_cast<int32_t>(key);
    const int64_t at = lane.rows_at[rank];
    lane.rows_at[rank] += dim;
    return at;
  }

 private:
  const GradientLayout& layout_;
  std::vector<OutLane> lanes_;
  std::vector<int64_t> first_lane_ = {0};  // Of each stream.
  std::vector<int64_t> starts_, heads_;
};

// What SendGradients says of a code that names no key.
Status WrongCode(int64_t stream, int64_t row, int64_t code);
// And of a stream that is too long.
Status CheckGradientSizes(const std::vector<LocalGradient>& gradients);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_LANES_H_
