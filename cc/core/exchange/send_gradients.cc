#include <algorithm>
#include <cstring>
#include <vector>

#include "cc/core/exchange/gradient_exchange.h"
#include "cc/core/exchange/gradient_lanes.h"

namespace tf_booster {
namespace {

// The gradients of one stream, by key.
class StreamSums {
 public:
  StreamSums(const GradientStream& stream, const LocalGradient& gradient, StreamLanes lanes)
      : stream_(stream), gradient_(gradient), lanes_(lanes) {}

  // Counts the rows of each lane. Returns the first gradient whose code is wrong, or -1.
  int64_t Build(ParallelFor& pf) {
    if (stream_.by_row) {
      for (int64_t i = 0; i < gradient_.size; ++i) {
        const int64_t place = lanes_.PlaceOf(gradient_.codes[i]);
        if (place == GradientSums::kWrongPlace) return i;
        if (place != GradientSums::kNoPlace) Count(lanes_.LaneOf(place), place);
      }
      return -1;
    }
    const GradientSums::Place wrong = sums_.Build(
        {{gradient_.grads, gradient_.size}}, stream_.dim, lanes_.num_places(),
        [&](int64_t, int64_t i) { return lanes_.PlaceOf(gradient_.codes[i]); }, pf);
    if (wrong.matrix == 0) return wrong.row;
    for (OutLane& lane : lanes_) {
      for (int64_t k = 0; k < lane.size; ++k) {
        if (sums_.Of(lane.first_place + k) != nullptr) Count(lane, lane.first_place + k);
      }
    }
    return -1;
  }

  // visit(lane, key's slot, gradient) for all that is to be sent.
  template <class Visit>
  void ForEach(Visit visit) const {
    if (stream_.by_row) {
      for (int64_t i = 0; i < gradient_.size; ++i) {
        const int64_t place = lanes_.PlaceOf(gradient_.codes[i]);
        if (place < 0) continue;
        OutLane& lane = lanes_.LaneOf(place);
        visit(lane, lane.SlotOf(place), gradient_.grads + i * stream_.dim);
      }
      return;
    }
    for (OutLane& lane : lanes_) {
      for (int64_t k = 0; k < lane.size; ++k) {
        const float* sum = sums_.Of(lane.first_place + k);
        if (sum != nullptr) visit(lane, lane.SlotOf(lane.first_place + k), sum);
      }
    }
  }

 private:
  static void Count(OutLane& lane, int64_t place) { ++lane.rows[SlotRank(lane.SlotOf(place))]; }

  const GradientStream& stream_;
  const LocalGradient& gradient_;
  StreamLanes lanes_;
  GradientSums sums_;
};

}  // namespace

Status SendGradients(const GradientLayout& layout, const std::vector<SentProbe>& probes,
                     const std::vector<LocalGradient>& gradients, const int64_t* notes, AllocateWords allocate,
                     int32_t* splits, ParallelFor& pf) {
  const int64_t num_streams = static_cast<int64_t>(layout.streams.size());
  TFB_RETURN_IF_ERROR(CheckGradientSizes(gradients));
  GradientLanes lanes(layout, probes);
  std::vector<StreamSums> sums;
  int64_t work = 0;
  for (int64_t t = 0; t < num_streams; ++t) {
    sums.emplace_back(layout.streams[t], gradients[t], lanes.of(t));
    work += gradients[t].size * (6 + layout.streams[t].dim / 2);
  }
  std::vector<int64_t> wrong(num_streams, -1);
  if (num_streams < pf.num_threads()) {
    for (int64_t t = 0; t < num_streams; ++t) wrong[t] = sums[t].Build(pf);
  } else {
    pf.Run(num_streams, 1 + work / num_streams, [&](int64_t begin, int64_t end) {
      SerialFor serial;
      for (int64_t t = begin; t < end; ++t) wrong[t] = sums[t].Build(serial);
    });
  }
  for (int64_t t = 0; t < num_streams; ++t) {
    if (wrong[t] >= 0) return WrongCode(t, wrong[t], gradients[t].codes[wrong[t]]);
  }
  TFB_RETURN_IF_ERROR(lanes.LayOut(splits));

  int32_t* words = nullptr;
  TFB_RETURN_IF_ERROR(allocate(lanes.total(), &words));
  const auto chunk_of = [&](int64_t rank) { return words + lanes.start(static_cast<int32_t>(rank)); };
  for (int32_t r = 0; r < layout.ranks; ++r) lanes.WriteHeader(r, notes, chunk_of(r));
  pf.Run(num_streams, 1 + work / std::max<int64_t>(num_streams, 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t dim = layout.streams[t].dim;
      sums[t].ForEach([&](OutLane& lane, int64_t slot, const float* gradient) {
        std::memcpy(words + GradientLanes::Put(lane, slot, dim, chunk_of), gradient, dim * sizeof(float));
      });
    }
  });
  return Status();
}

}  // namespace tf_booster
