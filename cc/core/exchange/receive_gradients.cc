#include <algorithm>
#include <cstring>
#include <string>

#include "cc/core/exchange/gradient_exchange.h"
#include "cc/core/exchange/gradient_message.h"

namespace tf_booster {
namespace {

constexpr int64_t kRowsPerBlock = 512;

// to (+)= scale * from.
void AddRow(const float* __restrict from, float scale, bool first, int64_t dim, float* __restrict to) {
  if (first && scale == 1.0f) {
    std::memcpy(to, from, dim * sizeof(float));
  } else if (first) {
    for (int64_t j = 0; j < dim; ++j) to[j] = scale * from[j];
  } else {
    for (int64_t j = 0; j < dim; ++j) to[j] += scale * from[j];
  }
}

}  // namespace

int64_t GradientLayout::num_lanes() const {
  int64_t n = 0;
  for (const GradientStream& stream : streams) n += static_cast<int64_t>(stream.lanes.size());
  return n;
}

int32_t GradientLayout::Fingerprint() const {
  uint64_t hash = Mix64(static_cast<uint64_t>(ranks) + 1);
  const auto add = [&](int64_t value) { hash = Mix64(hash + static_cast<uint64_t>(value) + 0x9E3779B97F4A7C15ull); };
  add(num_notes);
  for (const GradientStream& stream : streams) {
    add(stream.dim * 2 + stream.by_row);
    for (const GradientStream::Lane& lane : stream.lanes) add(groups[lane.probe]), add(lane.segment);
  }
  return static_cast<int32_t>(hash >> 33);
}

Status ReceivedGradients::Parse(const GradientLayout& layout, const std::vector<MergedProbe>& probes,
                                const int32_t* words, int64_t size, const int32_t* splits, const float* scales) {
  std::vector<int64_t> begins;
  TFB_RETURN_IF_ERROR(ChunkBegins("the gradients", size, splits, layout.ranks, GradientHeaderWords(layout), &begins));
  std::vector<const int32_t*> chunks;
  for (const int64_t begin : begins) chunks.push_back(words + begin);
  words_ = words;
  return ParseHeads(layout, probes, chunks, {splits, splits + layout.ranks}, begins, splits, scales);
}

Status ReceivedGradients::ParseHeads(const GradientLayout& layout, const std::vector<MergedProbe>& probes,
                                     const std::vector<const int32_t*>& heads, const std::vector<int64_t>& head_words,
                                     const std::vector<int64_t>& begins, const int32_t* splits, const float* scales) {
  layout_ = &layout;
  scales_ = scales;
  const int64_t header = GradientHeaderWords(layout);
  TFB_RETURN_IF_ERROR(CheckFingerprints("the gradients", heads, layout.Fingerprint()));
  std::vector<int64_t> keys;  // By lane and rank: those that the rank asked for.
  for (size_t t = 0; t < layout.streams.size(); ++t) {
    for (const GradientStream::Lane& lane : layout.streams[t].lanes) {
      const MergedProbe& probe = probes[lane.probe];
      const int64_t segments = layout.num_segments[lane.probe];
      int64_t first_place = 0;
      for (int64_t s = 0; s < lane.segment; ++s) first_place += probe.received[layout.ranks * segments + s];
      lanes_.push_back({static_cast<int64_t>(t), first_place, 0, {}, {}});
      const int64_t* codes = probe.codes;
      for (int32_t r = 0; r < layout.ranks; ++r) {
        for (int64_t s = 0; s < segments; ++s) {
          const int32_t n = probe.received[r * segments + s];
          if (s == lane.segment) {
            lanes_.back().parts.push_back({nullptr, 0, 0, codes, 0});
            keys.push_back(n);
          }
          codes += n;
        }
      }
    }
  }
  for (int32_t r = 0; r < layout.ranks; ++r) {
    notes_.push_back(reinterpret_cast<const int64_t*>(heads[r] + GradientNotesStart(layout)));
    int64_t at = header;
    bool fits = true;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      Part& part = lanes_[l].parts[r];
      const int32_t n = heads[r][1 + l];
      part.size = n == kAllKeys ? keys[l * layout.ranks + r] : n;
      if (n == kAllKeys) continue;
      part.places = heads[r] + at;
      at += n;
      fits = fits && n >= 0 && at <= head_words[r];
    }
    at = AlignedWords(at);
    for (Lane& lane : lanes_) {
      lane.parts[r].rows_at = begins[r] + at;
      at += lane.parts[r].size * layout.streams[lane.stream].dim;
    }
    if (!fits || AlignedWords(at) != splits[r]) {
      return Status(StatusCode::kInvalidArgument,
                    "the gradients of rank " + std::to_string(r) + " should have " + std::to_string(AlignedWords(at)) +
                        " words, but have " + std::to_string(splits[r]) + "; the ranks are not at the same step");
    }
    for (size_t l = 0; l < lanes_.size(); ++l) {
      TFB_RETURN_IF_ERROR(CheckPlaces(lanes_[l].parts[r], keys[l * layout.ranks + r], r));
    }
  }
  sizes_.assign(layout.streams.size(), 0);
  size_t l = 0;
  for (size_t t = 0; t < layout.streams.size(); ++t) {
    for (const GradientStream::Lane& lane : layout.streams[t].lanes) {
      const int64_t segments = layout.num_segments[lane.probe];
      NumberRows(probes[lane.probe].received[layout.ranks * segments + lane.segment], &lanes_[l++], &sizes_[t]);
    }
  }
  return Status();
}

Status ReceivedGradients::CheckPlaces(const Part& part, int64_t num_keys, int32_t rank) const {
  if (part.places == nullptr) return Status();
  for (int64_t i = 0; i < part.size; ++i) {
    if (part.places[i] >= 0 && part.places[i] < num_keys) continue;
    return Status(StatusCode::kInvalidArgument, "the gradients of rank " + std::to_string(rank) + " name key " +
                                                    std::to_string(part.places[i]) + " of " + std::to_string(num_keys) +
                                                    "; the ranks are not at the same step");
  }
  return Status();
}

void ReceivedGradients::NumberRows(int64_t num_keys, Lane* lane, int64_t* size) const {
  lane->first_row = *size;
  if (layout_->streams[lane->stream].by_row) {
    for (int32_t r = 0; r < layout_->ranks; ++r) {
      lane->parts[r].first_row = *size;
      if (scales_[r] != 0) *size += lane->parts[r].size;
    }
    return;
  }
  std::vector<int32_t> has(num_keys, 0);
  int64_t found = 0;
  for (int32_t r = 0; r < layout_->ranks; ++r) {
    if (scales_[r] == 0) continue;
    const Part& part = lane->parts[r];
    for (int64_t i = 0; i < part.size; ++i) {
      int32_t& mark = has[CodePlace(part.CodeOf(i)) - lane->first_place];
      found += mark == 0;
      mark = 1;
    }
  }
  *size += found;
  if (found == num_keys) return;
  int32_t row = 0;
  for (int32_t& mark : has) {
    const int32_t next = row + mark;
    mark = row;
    row = next;
  }
  lane->row_of = std::move(has);
}

int64_t ReceivedGradients::RowOf(const Lane& lane, const Part& part, int64_t row) const {
  if (layout_->streams[lane.stream].by_row) return part.first_row + row;
  const int64_t key = CodePlace(part.CodeOf(row)) - lane.first_place;
  return lane.first_row + (lane.row_of.empty() ? key : lane.row_of[key]);
}

void ReceivedGradients::PlanSum(int64_t stream, int64_t* codes, RowTerms* terms, std::vector<float>* scales) const {
  const int64_t dim = layout_->streams[stream].dim;
  std::vector<int32_t> next(sizes_[stream], 0);  // Terms of each row, and then where its next one goes.
  const auto for_each = [&](auto visit) {
    for (int32_t r = 0; r < layout_->ranks; ++r) {
      if (scales_[r] == 0) continue;
      for (const Lane& lane : lanes_) {
        if (lane.stream != stream) continue;
        const Part& part = lane.parts[r];
        for (int64_t i = 0; i < part.size; ++i) visit(r, part, i, RowOf(lane, part, i));
      }
    }
  };
  for_each([&](int32_t, const Part& part, int64_t i, int64_t row) {
    codes[row] = part.CodeOf(i);
    ++next[row];
  });
  terms->begins = {0};
  for (int32_t& n : next) {
    const int32_t begin = terms->begins.back();
    terms->begins.push_back(begin + n);
    n = begin;
  }
  terms->terms.resize(terms->begins.back());
  scales->resize(terms->begins.back());
  for_each([&](int32_t r, const Part& part, int64_t i, int64_t row) {
    terms->terms[next[row]] = static_cast<int32_t>(part.rows_at + i * dim);
    (*scales)[next[row]++] = scales_[r];
  });
}

void ReceivedGradients::Sum(const std::vector<Out>& out, ParallelFor& pf) const {
  std::vector<std::vector<uint8_t>> written(lanes_.size());
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    const int64_t end =
        l + 1 < lanes_.size() && lanes_[l + 1].stream == lane.stream ? lanes_[l + 1].first_row : sizes_[lane.stream];
    if (!layout_->streams[lane.stream].by_row) written[l].assign(end - lane.first_row, 0);
  }
  struct Block {
    size_t lane;
    int64_t begin, end;
  };
  // One rank after the other. Within one each key occurs once in a lane, so threads need nothing from each other.
  for (int32_t r = 0; r < layout_->ranks; ++r) {
    if (scales_[r] == 0) continue;
    std::vector<Block> blocks;
    int64_t cost = 1;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const int64_t n = lanes_[l].parts[r].size;
      for (int64_t i = 0; i < n; i += kRowsPerBlock) blocks.push_back({l, i, std::min(n, i + kRowsPerBlock)});
      cost += n * (5 + layout_->streams[lanes_[l].stream].dim / 4);
    }
    const int64_t num_blocks = static_cast<int64_t>(blocks.size());
    pf.Run(num_blocks, cost / std::max<int64_t>(num_blocks, 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const Lane& lane = lanes_[blocks[b].lane];
        const Part& part = lane.parts[r];
        const GradientStream& stream = layout_->streams[lane.stream];
        for (int64_t i = blocks[b].begin; i < blocks[b].end; ++i) {
          const int64_t row = RowOf(lane, part, i);
          bool first = true;
          if (!stream.by_row) {
            uint8_t& mark = written[blocks[b].lane][row - lane.first_row];
            first = mark == 0;
            mark = 1;
          }
          out[lane.stream].codes[row] = part.CodeOf(i);
          AddRow(reinterpret_cast<const float*>(words_) + part.rows_at + i * stream.dim, scales_[r], first, stream.dim,
                 out[lane.stream].values + row * stream.dim);
        }
      }
    });
  }
}

}  // namespace tf_booster
