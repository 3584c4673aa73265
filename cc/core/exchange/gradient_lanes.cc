#include "cc/core/exchange/gradient_lanes.h"

#include <cstring>
#include <string>
#include <utility>

#include "cc/core/exchange/gradient_message.h"

namespace tf_booster {

GradientLanes::GradientLanes(const GradientLayout& layout, const std::vector<SentProbe>& probes) : layout_(layout) {
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
      lanes_.push_back(std::move(out));
    }
    first_lane_.push_back(static_cast<int64_t>(lanes_.size()));
  }
}

Status GradientLanes::LayOut(int32_t* splits) {
  const int64_t header = GradientHeaderWords(layout_);
  starts_ = {0};
  for (int32_t r = 0; r < layout_.ranks; ++r) {
    int64_t at = header;
    for (OutLane& lane : lanes_) {
      const bool all = !layout_.streams[lane.stream].by_row && lane.rows[r] == lane.keys[r];
      lane.places_at[r] = all ? -1 : at;
      if (!all) at += lane.rows[r];
    }
    at = AlignedWords(at);
    heads_.push_back(at);
    for (OutLane& lane : lanes_) {
      lane.rows_at[r] = starts_.back() + at;
      at += lane.rows[r] * layout_.streams[lane.stream].dim;
    }
    at = starts_.back() + AlignedWords(at);
    if (at > kMaxExchangeWords) {
      return Status(StatusCode::kInvalidArgument, "the message of gradients has " + std::to_string(at) +
                                                      " words of 4 bytes, but a collective takes at most " +
                                                      std::to_string(kMaxExchangeWords) + "; use smaller batches");
    }
    splits[r] = static_cast<int32_t>(at - starts_.back());
    starts_.push_back(at);
  }
  return Status();
}

void GradientLanes::WriteHeader(int32_t rank, const int64_t* notes, int32_t* chunk) const {
  chunk[0] = layout_.Fingerprint();
  for (size_t l = 0; l < lanes_.size(); ++l) {
    chunk[1 + l] = lanes_[l].places_at[rank] < 0 ? kAllKeys : static_cast<int32_t>(lanes_[l].rows[rank]);
  }
  if (layout_.num_notes > 0) {
    std::memcpy(chunk + GradientNotesStart(layout_), notes, layout_.num_notes * sizeof(int64_t));
  }
}

Status WrongCode(int64_t stream, int64_t row, int64_t code) {
  return Status(StatusCode::kInvalidArgument,
                "codes[" + std::to_string(stream) + "][" + std::to_string(row) + "] is " + std::to_string(code) +
                    " but names no key of this table's lookups; pass the codes of the lookups on unchanged");
}

Status CheckGradientSizes(const std::vector<LocalGradient>& gradients) {
  for (const LocalGradient& gradient : gradients) {
    if (GradientSums::Fits({{gradient.grads, gradient.size}})) continue;
    return Status(StatusCode::kInvalidArgument,
                  "a gradient has more than the 2^31 - 1 rows that are possible; use smaller batches");
  }
  return Status();
}

}  // namespace tf_booster
