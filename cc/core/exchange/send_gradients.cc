#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "cc/core/exchange/gradient_exchange.h"
#include "cc/core/exchange/gradient_message.h"
#include "cc/core/optimizer/gradient_sums.h"

namespace tf_booster {
namespace {

constexpr int64_t kCodePlaceMask = (int64_t{1} << 40) - 1;

// One lane on its way out.
struct OutLane {
  const SentProbe* probe;
  int64_t group;
  int64_t stream;
  int64_t first, size;            // The segment's keys, among the probe's.
  int64_t first_place;            // Of these keys, among those of the stream.
  std::vector<int64_t> row_base;  // Of the segment, among the probe's rows from each rank.
  std::vector<int64_t> keys;      // Of the segment, at each rank.
  std::vector<int64_t> rows;      // To send to each rank.
  std::vector<int64_t> places_at, rows_at;
};

std::vector<OutLane> MakeLanes(const GradientLayout& layout, const std::vector<SentProbe>& probes) {
  std::vector<OutLane> lanes;
  for (size_t t = 0; t < layout.streams.size(); ++t) {
    int64_t place = 0;
    for (const GradientStream::Lane& lane : layout.streams[t].lanes) {
      const SentProbe& probe = probes[lane.probe];
      const int64_t segments = layout.num_segments[lane.probe];
      OutLane out = {&probe, layout.groups[lane.probe], static_cast<int64_t>(t), 0, 0, place, {}, {}, {}, {}, {}};
      for (int32_t r = 0; r < layout.ranks; ++r) {
        int64_t before = 0;
        for (int64_t s = 0; s < lane.segment; ++s) before += probe.sent[r * segments + s];
        out.row_base.push_back(before);
        out.keys.push_back(probe.sent[r * segments + lane.segment]);
        out.first += before;
        out.size += out.keys.back();
      }
      place += out.size;
      out.rows.assign(layout.ranks, 0);
      out.places_at.resize(layout.ranks);
      out.rows_at.resize(layout.ranks);
      lanes.push_back(std::move(out));
    }
  }
  return lanes;
}

// The gradients of one stream, by key.
class StreamSums {
 public:
  // Returns the first row whose code is wrong, or -1.
  int64_t Build(const GradientStream& stream, const LocalGradient& gradient, OutLane* lanes, int64_t num_lanes,
                ParallelFor& pf) {
    lanes_ = lanes;
    num_lanes_ = num_lanes;
    gradient_ = &gradient;
    const int64_t num_places = num_lanes == 0 ? 0 : lanes[num_lanes - 1].first_place + lanes[num_lanes - 1].size;
    if (stream.by_row) {
      for (int64_t i = 0; i < gradient.size; ++i) {
        const int64_t place = PlaceOf(gradient.codes[i]);
        if (place == GradientSums::kWrongPlace) return i;
        if (place == GradientSums::kNoPlace) continue;
        OutLane& lane = LaneOf(place);
        ++lane.rows[SlotRank(lane.probe->slots[lane.first + place - lane.first_place])];
      }
      return -1;
    }
    const GradientSums::Place wrong = sums_.Build(
        {{gradient.grads, gradient.size}}, stream.dim, num_places,
        [&](int64_t, int64_t i) { return PlaceOf(gradient.codes[i]); }, pf);
    if (wrong.matrix == 0) return wrong.row;
    for (int64_t l = 0; l < num_lanes; ++l) {
      OutLane& lane = lanes[l];
      for (int64_t k = 0; k < lane.size; ++k) {
        if (sums_.Of(lane.first_place + k) != nullptr) ++lane.rows[SlotRank(lane.probe->slots[lane.first + k])];
      }
    }
    return -1;
  }

  // visit(lane, key's slot, gradient) for all that is to be sent.
  template <class Visit>
  void ForEach(const GradientStream& stream, Visit visit) const {
    if (stream.by_row) {
      for (int64_t i = 0; i < gradient_->size; ++i) {
        const int64_t place = PlaceOf(gradient_->codes[i]);
        if (place < 0) continue;
        OutLane& lane = LaneOf(place);
        visit(lane, lane.probe->slots[lane.first + place - lane.first_place], gradient_->grads + i * stream.dim);
      }
      return;
    }
    for (int64_t l = 0; l < num_lanes_; ++l) {
      OutLane& lane = lanes_[l];
      for (int64_t k = 0; k < lane.size; ++k) {
        const float* sum = sums_.Of(lane.first_place + k);
        if (sum != nullptr) visit(lane, lane.probe->slots[lane.first + k], sum);
      }
    }
  }

 private:
  int64_t PlaceOf(int64_t code) const {
    if (code == 0) return GradientSums::kNoPlace;
    const int64_t group = code >> 40, place = (code & kCodePlaceMask) - 1;
    for (int64_t l = 0; l < num_lanes_; ++l) {
      const OutLane& lane = lanes_[l];
      if (lane.group == group && place >= lane.first && place < lane.first + lane.size) {
        return lane.first_place + place - lane.first;
      }
    }
    return GradientSums::kWrongPlace;
  }

  OutLane& LaneOf(int64_t place) const {
    int64_t l = 0;
    while (place >= lanes_[l].first_place + lanes_[l].size) ++l;
    return lanes_[l];
  }

  OutLane* lanes_ = nullptr;
  int64_t num_lanes_ = 0;
  const LocalGradient* gradient_ = nullptr;
  GradientSums sums_;
};

}  // namespace

Status SendGradients(const GradientLayout& layout, const std::vector<SentProbe>& probes,
                     const std::vector<LocalGradient>& gradients, const int64_t* notes, AllocateWords allocate,
                     int32_t* splits, ParallelFor& pf) {
  const int64_t num_streams = static_cast<int64_t>(layout.streams.size());
  for (int64_t t = 0; t < num_streams; ++t) {
    if (GradientSums::Fits({{gradients[t].grads, gradients[t].size}})) continue;
    return Status(StatusCode::kInvalidArgument,
                  "a gradient has more than the 2^31 - 1 rows that are possible; use smaller batches");
  }
  std::vector<OutLane> lanes = MakeLanes(layout, probes);
  std::vector<int64_t> first_lane = {0};
  int64_t work = 0;
  for (int64_t t = 0; t < num_streams; ++t) {
    first_lane.push_back(first_lane.back() + static_cast<int64_t>(layout.streams[t].lanes.size()));
    work += gradients[t].size * (6 + layout.streams[t].dim / 2);
  }
  std::vector<StreamSums> sums(num_streams);
  std::vector<int64_t> wrong(num_streams, -1);
  const auto build = [&](int64_t t, ParallelFor& inner) {
    wrong[t] = sums[t].Build(layout.streams[t], gradients[t], lanes.data() + first_lane[t],
                             first_lane[t + 1] - first_lane[t], inner);
  };
  if (num_streams < pf.num_threads()) {
    for (int64_t t = 0; t < num_streams; ++t) build(t, pf);
  } else {
    pf.Run(num_streams, 1 + work / num_streams, [&](int64_t begin, int64_t end) {
      SerialFor serial;
      for (int64_t t = begin; t < end; ++t) build(t, serial);
    });
  }
  for (int64_t t = 0; t < num_streams; ++t) {
    if (wrong[t] < 0) continue;
    return Status(StatusCode::kInvalidArgument,
                  "codes[" + std::to_string(t) + "][" + std::to_string(wrong[t]) + "] is " +
                      std::to_string(gradients[t].codes[wrong[t]]) +
                      " but names no key of this table's lookups; pass the codes of the lookups on unchanged");
  }

  const int64_t header = GradientHeaderWords(layout);
  int64_t total = 0;
  std::vector<int64_t> starts;
  for (int32_t r = 0; r < layout.ranks; ++r) {
    starts.push_back(total);
    int64_t at = total + header;
    for (OutLane& lane : lanes) {
      lane.places_at[r] = at;
      const bool all = !layout.streams[lane.stream].by_row && lane.rows[r] == lane.keys[r];
      if (all) lane.places_at[r] = -1;
      if (!all) at += lane.rows[r];
    }
    at = AlignedWords(at);
    for (OutLane& lane : lanes) {
      lane.rows_at[r] = at;
      at += lane.rows[r] * layout.streams[lane.stream].dim;
    }
    at = AlignedWords(at);
    if (at > kMaxExchangeWords) {
      return Status(StatusCode::kInvalidArgument, "the message of gradients has " + std::to_string(at) +
                                                      " words of 4 bytes, but a collective takes at most " +
                                                      std::to_string(kMaxExchangeWords) + "; use smaller batches");
    }
    splits[r] = static_cast<int32_t>(at - total);
    total = at;
  }

  int32_t* words = nullptr;
  TFB_RETURN_IF_ERROR(allocate(total, &words));
  const int32_t fingerprint = layout.Fingerprint();
  for (int32_t r = 0; r < layout.ranks; ++r) {
    int32_t* chunk = words + starts[r];
    chunk[0] = fingerprint;
    for (size_t l = 0; l < lanes.size(); ++l) {
      chunk[1 + l] = lanes[l].places_at[r] < 0 ? kAllKeys : static_cast<int32_t>(lanes[l].rows[r]);
    }
    if (layout.num_notes > 0) {  // `notes` may be null otherwise.
      std::memcpy(chunk + GradientNotesStart(layout), notes, layout.num_notes * sizeof(int64_t));
    }
  }
  pf.Run(num_streams, 1 + work / std::max<int64_t>(num_streams, 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const GradientStream& stream = layout.streams[t];
      const int64_t bytes = stream.dim * static_cast<int64_t>(sizeof(float));
      sums[t].ForEach(stream, [&](OutLane& lane, int64_t slot, const float* gradient) {
        const int64_t rank = SlotRank(slot), key = SlotRow(slot) - lane.row_base[rank];
        int64_t row = key;
        if (lane.places_at[rank] >= 0) {
          words[lane.places_at[rank]++] = static_cast<int32_t>(key);
          row = 0;
        }
        std::memcpy(words + lane.rows_at[rank] + row * stream.dim, gradient, bytes);
        if (lane.places_at[rank] >= 0) lane.rows_at[rank] += stream.dim;
      });
    }
  });
  return Status();
}

}  // namespace tf_booster
