#include "cc/core/exchange/card_plans.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "cc/core/exchange/gradient_lanes.h"
#include "cc/core/exchange/gradient_message.h"

namespace tf_booster {
namespace {

// Counts the terms of each place, and of each lane the rows. Returns the first gradient whose code is wrong, or -1.
// places [gradient.size]: of each, or GradientSums::kNoPlace.
int64_t CountTerms(const LocalGradient& gradient, bool by_row, StreamLanes lanes, std::vector<int32_t>* counts,
                   std::vector<int32_t>* places) {
  counts->assign(lanes.num_places(), 0);
  places->resize(gradient.size);
  for (int64_t i = 0; i < gradient.size; ++i) {
    const int64_t place = lanes.PlaceOf(gradient.codes[i]);
    if (place == GradientSums::kWrongPlace) return i;
    (*places)[i] = static_cast<int32_t>(place);
    if (place < 0) continue;
    const bool first = (*counts)[place]++ == 0;
    if (!first && !by_row) continue;
    OutLane& lane = lanes.LaneOf(place);
    ++lane.rows[SlotRank(lane.SlotOf(place))];
  }
  return -1;
}

// By row: each gradient is a row. Else the rows are places that have terms, in their order.
void ListTerms(const std::vector<int32_t>& places, bool by_row, std::vector<int32_t>* counts, RowTerms* out) {
  out->begins = {0};
  const int64_t size = static_cast<int64_t>(places.size());
  if (by_row) {
    for (int64_t i = 0; i < size; ++i) {
      if (places[i] < 0) continue;
      out->terms.push_back(static_cast<int32_t>(i));
      out->begins.push_back(static_cast<int32_t>(out->terms.size()));
    }
    return;
  }
  int32_t end = 0;
  for (int32_t& count : *counts) {  // Becomes where the place's next term goes.
    const int32_t begin = end;
    end += count;
    if (count > 0) out->begins.push_back(end);
    count = begin;
  }
  out->terms.resize(end);
  for (int64_t i = 0; i < size; ++i) {
    if (places[i] >= 0) out->terms[(*counts)[places[i]]++] = static_cast<int32_t>(i);
  }
}

}  // namespace

Status PlanExpand(const std::vector<ExpandPart>& parts, int64_t dim, const int64_t* slots, int64_t num_slots,
                  const int64_t* starts, const std::vector<int32_t*>& places, ParallelFor& pf) {
  std::atomic<int64_t> wrong{0};
  for (size_t p = 0; p < parts.size(); ++p) {
    pf.Run(parts[p].size, 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t code = parts[p].codes[i], place = CodePlace(code);
        places[p][i] = -1;
        if (place >= 0 && place < num_slots) {
          const int64_t slot = slots[place];
          places[p][i] = static_cast<int32_t>(starts[SlotRank(slot)] + SlotRow(slot) * dim);
        } else if (code != 0) {
          wrong = code;
        }
      }
    });
  }
  return wrong == 0 ? Status() : WrongExpandCode(wrong, num_slots);
}

Status PlanSend(const GradientLayout& layout, const std::vector<SentProbe>& probes,
                const std::vector<LocalGradient>& gradients, const int64_t* notes, int32_t* splits, SendPlan* plan,
                ParallelFor& pf) {
  const int64_t num_streams = static_cast<int64_t>(layout.streams.size());
  TFB_RETURN_IF_ERROR(CheckGradientSizes(gradients));
  GradientLanes lanes(layout, probes);
  std::vector<std::vector<int32_t>> counts(num_streams), places(num_streams);
  std::vector<int64_t> wrong(num_streams, -1);
  int64_t cost = 10;
  for (const LocalGradient& gradient : gradients) cost += gradient.size * 6 / std::max<int64_t>(num_streams, 1);
  plan->streams.resize(num_streams);
  pf.Run(num_streams, cost, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const bool by_row = layout.streams[t].by_row;
      wrong[t] = CountTerms(gradients[t], by_row, lanes.of(t), &counts[t], &places[t]);
    }
  });
  for (int64_t t = 0; t < num_streams; ++t) {
    if (wrong[t] >= 0) return WrongCode(t, wrong[t], gradients[t].codes[wrong[t]]);
  }
  TFB_RETURN_IF_ERROR(lanes.LayOut(splits));
  plan->words = lanes.total();
  plan->head_begins = {0};
  for (int32_t r = 0; r < layout.ranks; ++r) {
    plan->starts.push_back(static_cast<int32_t>(lanes.start(r)));
    plan->head_begins.push_back(plan->head_begins.back() + static_cast<int32_t>(lanes.head_words(r)));
  }
  plan->heads.assign(plan->head_begins.back(), 0);
  const auto chunk_of = [&](int64_t rank) { return plan->heads.data() + plan->head_begins[rank]; };
  for (int32_t r = 0; r < layout.ranks; ++r) lanes.WriteHeader(r, notes, chunk_of(r));
  pf.Run(num_streams, cost, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const GradientStream& stream = layout.streams[t];
      SendPlan::Stream& out = plan->streams[t];
      const StreamLanes of_stream = lanes.of(t);
      const auto put = [&](OutLane& lane, int64_t place) {
        out.to.push_back(static_cast<int32_t>(GradientLanes::Put(lane, lane.SlotOf(place), stream.dim, chunk_of)));
      };
      if (stream.by_row) {
        for (const int32_t place : places[t]) {
          if (place >= 0) put(of_stream.LaneOf(place), place);
        }
      } else {
        for (OutLane& lane : of_stream) {
          for (int64_t place = lane.first_place; place < lane.first_place + lane.size; ++place) {
            if (counts[t][place] > 0) put(lane, place);
          }
        }
      }
      ListTerms(places[t], stream.by_row, &counts[t], &out);
    }
  });
  return Status();
}

Status FindHeads(const GradientLayout& layout, const std::vector<MergedProbe>& probes, int64_t size,
                 const int32_t* splits, HeadsToRead* heads) {
  const int64_t header = GradientHeaderWords(layout);
  TFB_RETURN_IF_ERROR(ChunkBegins("the gradients", size, splits, layout.ranks, header, &heads->begins));
  for (int32_t r = 0; r < layout.ranks; ++r) {
    int64_t most = header;
    for (const GradientStream& stream : layout.streams) {
      for (const GradientStream::Lane& lane : stream.lanes) {
        // A row that has a place is one of fewer than all keys; by row it has its values behind, too.
        const int64_t keys = probes[lane.probe].received[r * layout.num_segments[lane.probe] + lane.segment];
        most += stream.by_row ? (splits[r] - header) / (1 + stream.dim) : keys;
      }
    }
    heads->words.push_back(std::min<int64_t>(most, splits[r]));
    heads->at.push_back(heads->total);
    heads->total += AlignedWords(heads->words.back());
  }
  return Status();
}

}  // namespace tf_booster
