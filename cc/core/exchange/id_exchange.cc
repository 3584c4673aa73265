#include "cc/core/exchange/id_exchange.h"
#include "cc/core/base/dispatch_dim.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cc/core/hash_table/row_copy.h"
#include "cc/core/unique/unique_by_field.h"

namespace tf_booster {
namespace {

constexpr int64_t kRouteNs = 6;     // A key: hash, division, a write that is not in order.
constexpr int64_t kRowsHeader = 1;  // The fingerprint.
constexpr int64_t kIdsHeader = 2;   // Fingerprint and rows; keys of each segment follow.

int64_t KeysStart(int64_t segments) { return AlignedWords(kIdsHeader + segments); }

// A run of keys of one field in a probe.
struct Segment {
  int64_t probe, first, size;
  int64_t of_probe;             // Its number among the probe's.
  std::vector<int64_t> sent;    // To each rank.
  std::vector<int64_t> keys;    // Where its keys for each rank begin, in words.
  std::vector<int64_t> counts;  // Where their sightings begin.
  std::vector<int64_t> rows;    // The number of its first row among the probe's rows from each rank.
};

Status FindSegments(const ExchangeLayout& layout, const std::vector<RoutedProbe>& probes, std::vector<Segment>* found) {
  for (size_t p = 0; p < probes.size(); ++p) {
    int64_t at = 0;
    const std::vector<uint32_t>& fields = layout.probes[p].fields;
    for (size_t s = 0; s < fields.size(); ++s) {
      const int64_t begin = at;
      while (at < probes[p].size && probes[p].fields[at] == fields[s]) ++at;
      found->push_back({static_cast<int64_t>(p), begin, at - begin, static_cast<int64_t>(s), {}, {}, {}, {}});
    }
    if (at != probes[p].size) {
      return Status(StatusCode::kInvalidArgument, "a key is of field " + std::to_string(probes[p].fields[at]) +
                                                      ", which the probe has not, or not in this place");
    }
  }
  return Status();
}

Status TooLarge(const char* what, int64_t words) {
  return Status(StatusCode::kInvalidArgument, std::string("the message of ") + what + " has " + std::to_string(words) +
                                                  " words of 4 bytes, but a collective takes at most " +
                                                  std::to_string(kMaxExchangeWords) + "; use smaller batches");
}

}  // namespace

Status RouteIds(const ExchangeLayout& layout, float rows, const std::vector<RoutedProbe>& probes,
                AllocateWords allocate, int32_t* splits, int64_t* starts, int64_t* reply_splits, ParallelFor& pf) {
  const int32_t ranks = layout.ranks;
  std::vector<Segment> segments;
  TFB_RETURN_IF_ERROR(FindSegments(layout, probes, &segments));
  const int64_t num_segments = static_cast<int64_t>(segments.size());
  int64_t num_keys = 0;
  for (const RoutedProbe& probe : probes) num_keys += probe.size;
  const int64_t cost = 1 + num_keys * kRouteNs / std::max<int64_t>(num_segments, 1);

  // A slot's rank is written first, and its row once it is known where the segment's rows begin.
  pf.Run(num_segments, cost, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      Segment& segment = segments[s];
      const RoutedProbe& probe = probes[segment.probe];
      segment.sent.assign(ranks, 0);
      for (int64_t k = segment.first; k < segment.first + segment.size; ++k) {
        const int32_t owner = OwnerOf(probe.keys[k], ranks, layout.mode);
        probe.slots[k] = MakeSlot(owner, segment.sent[owner]++);
      }
    }
  });

  for (Segment& segment : segments)
    segment.keys.resize(ranks), segment.counts.resize(ranks), segment.rows.resize(ranks);
  int64_t total = 0;
  for (int32_t r = 0; r < ranks; ++r) {
    int64_t at = total + KeysStart(num_segments);
    std::vector<int64_t> rows_so_far(probes.size(), 0);
    for (Segment& segment : segments) {
      segment.keys[r] = at;
      at += 2 * segment.sent[r];
      segment.rows[r] = rows_so_far[segment.probe];
      rows_so_far[segment.probe] += segment.sent[r];
      const int64_t in_probe = static_cast<int64_t>(layout.probes[segment.probe].fields.size());
      probes[segment.probe].sent[r * in_probe + segment.of_probe] = static_cast<int32_t>(segment.sent[r]);
    }
    for (Segment& segment : segments) {
      segment.counts[r] = at;
      if (layout.probes[segment.probe].counted) at += segment.sent[r];
    }
    at = AlignedWords(at);
    if (at > kMaxExchangeWords) return TooLarge("ids", at);
    splits[r] = static_cast<int32_t>(at - total);
    total = at;
  }
  int64_t reply = 0;
  for (int32_t r = 0; r < ranks; ++r) {
    const int64_t before = reply;
    reply = AlignedWords(reply + kRowsHeader);
    for (size_t p = 0; p < probes.size(); ++p) {
      starts[p * ranks + r] = reply;
      int64_t n = 0;
      for (const Segment& segment : segments) n += segment.probe == static_cast<int64_t>(p) ? segment.sent[r] : 0;
      reply = AlignedWords(reply + n * layout.probes[p].dim);
    }
    if (reply > kMaxExchangeWords) return TooLarge("rows", reply);
    reply_splits[r] = reply - before;
  }

  int32_t* words = nullptr;
  TFB_RETURN_IF_ERROR(allocate(total, &words));
  const int32_t fingerprint = layout.Fingerprint();
  for (int32_t r = 0, start = 0; r < ranks; start += splits[r++]) {
    words[start] = fingerprint;
    std::memcpy(words + start + 1, &rows, sizeof(rows));
    for (int64_t s = 0; s < num_segments; ++s) {
      words[start + kIdsHeader + s] = static_cast<int32_t>(segments[s].sent[r]);
    }
  }
  pf.Run(num_segments, cost, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const Segment& segment = segments[s];
      const RoutedProbe& probe = probes[segment.probe];
      const bool counted = layout.probes[segment.probe].counted;
      for (int64_t k = segment.first; k < segment.first + segment.size; ++k) {
        const int64_t rank = SlotRank(probe.slots[k]), place = SlotRow(probe.slots[k]);
        std::memcpy(words + segment.keys[rank] + 2 * place, probe.keys + k, sizeof(int64_t));
        // More than 2^31 − 1 sightings of a key in a batch do not occur: Unique takes fewer ids.
        if (counted) words[segment.counts[rank] + place] = static_cast<int32_t>(probe.counts[k]);
        probe.slots[k] = MakeSlot(rank, segment.rows[rank] + place);
      }
    }
  });
  return Status();
}

Status ReceivedIds::Parse(const ExchangeLayout& layout, const int32_t* words, int64_t size, const int32_t* splits) {
  layout_ = &layout;
  num_segments_ = layout.num_segments();
  int64_t segment = 0;
  for (const ExchangeProbe& probe : layout.probes) {
    first_segment_.push_back(segment);
    segment += static_cast<int64_t>(probe.fields.size());
  }
  std::vector<const int32_t*> chunks;
  TFB_RETURN_IF_ERROR(
      CutChunks("the ids", words, size, splits, layout.ranks, layout.Fingerprint(), KeysStart(num_segments_), &chunks));
  for (int32_t r = 0; r < layout.ranks; ++r) {
    float rows;
    std::memcpy(&rows, chunks[r] + 1, sizeof(rows));
    rows_.push_back(rows);
    int64_t at = KeysStart(num_segments_), needed = at;
    const size_t first = parts_.size();
    for (size_t p = 0; p < layout.probes.size(); ++p) {
      for (size_t s = 0; s < layout.probes[p].fields.size(); ++s) {
        const int32_t n = chunks[r][kIdsHeader + parts_.size() - first];
        needed += (layout.probes[p].counted ? 3 : 2) * int64_t{n};
        // Keys start at an even word of a chunk that starts at a multiple of 64 bytes.
        parts_.push_back({reinterpret_cast<const int64_t*>(chunks[r] + at), nullptr, n});
        at += 2 * int64_t{n};
        if (n < 0 || needed > splits[r]) {
          return Status(StatusCode::kInvalidArgument, "the ids of rank " + std::to_string(r) + ": the message of " +
                                                          std::to_string(splits[r]) + " words names " +
                                                          std::to_string(n) + " keys of one feature, more than it has");
        }
      }
    }
    size_t part = first;
    for (const ExchangeProbe& probe : layout.probes) {
      for (size_t s = 0; s < probe.fields.size(); ++s, ++part) {
        if (!probe.counted) continue;
        parts_[part].sightings = chunks[r] + at;
        at += parts_[part].size;
      }
    }
  }
  return Status();
}

int64_t ReceivedIds::size(int64_t probe, int32_t rank) const {
  int64_t n = 0;
  for (size_t s = 0; s < layout_->probes[probe].fields.size(); ++s) n += Part(probe, rank, s).size;
  return n;
}

int64_t ReceivedIds::size(int64_t probe) const {
  int64_t n = 0;
  for (int32_t r = 0; r < layout_->ranks; ++r) n += size(probe, r);
  return n;
}

Status ReceivedIds::Merge(int64_t probe, int64_t first, int64_t* codes, Merged* merged, ParallelFor& pf) const {
  const ExchangeProbe& settings = layout_->probes[probe];
  const int64_t num_segments = static_cast<int64_t>(settings.fields.size());
  std::vector<int64_t> at;  // Of each rank's and segment's codes.
  int64_t total = 0;
  for (int32_t r = 0; r < layout_->ranks; ++r) {
    for (int64_t s = 0; s < num_segments; ++s) at.push_back(total), total += Part(probe, r, s).size;
  }
  std::vector<FieldIds> arrays;
  for (int64_t s = 0; s < num_segments; ++s) {
    for (int32_t r = 0; r < layout_->ranks; ++r) {
      const Keys& part = Part(probe, r, s);
      arrays.push_back({part.keys, part.size, settings.fields[s], codes + at[r * num_segments + s]});
    }
  }
  TFB_RETURN_IF_ERROR(UniqueByField(
      arrays, first, /*with_counts=*/false,
      [&](int64_t u, DistinctPairs* out) {
        merged->keys.resize(u);
        merged->fields.resize(u);
        *out = {merged->keys.data(), merged->fields.data(), nullptr};
        return Status();
      },
      pf));
  merged->sizes.assign(num_segments, 0);
  size_t k = 0;
  for (int64_t s = 0; s < num_segments; ++s) {
    while (k < merged->fields.size() && merged->fields[k] == settings.fields[s]) ++k, ++merged->sizes[s];
  }
  merged->counts.assign(merged->keys.size(), settings.counted ? 0 : 1);
  if (!settings.counted) return Status();
  for (int32_t r = 0; r < layout_->ranks; ++r) {
    if (!(rows_[r] > 0)) continue;
    for (int64_t s = 0; s < num_segments; ++s) {
      const Keys& part = Part(probe, r, s);
      const int64_t* code = codes + at[r * num_segments + s];
      for (int32_t i = 0; i < part.size; ++i) merged->counts[code[i] - first] += part.sightings[i];
    }
  }
  return Status();
}

Status ReceivedIds::LayOutRows(int32_t* splits, int64_t* total, std::vector<std::vector<int64_t>>* starts) const {
  starts->assign(layout_->probes.size(), {});
  *total = 0;
  for (int32_t r = 0; r < layout_->ranks; ++r) {
    const int64_t before = *total;
    *total = AlignedWords(*total + kRowsHeader);
    for (size_t p = 0; p < layout_->probes.size(); ++p) {
      (*starts)[p].push_back(*total);
      *total = AlignedWords(*total + size(p, r) * layout_->probes[p].dim);
    }
    if (*total > kMaxExchangeWords) return TooLarge("rows", *total);
    splits[r] = static_cast<int32_t>(*total - before);
  }
  return Status();
}

void DropUncounted(int64_t first, int64_t size, int64_t* codes, ReceivedIds::Merged* merged) {
  std::vector<int64_t> moved(merged->keys.size());
  int64_t kept = 0;
  size_t k = 0;
  for (int32_t& segment : merged->sizes) {
    const int64_t before = kept;
    for (int32_t i = 0; i < segment; ++i, ++k) {
      moved[k] = merged->counts[k] > 0 ? first + kept : 0;
      if (moved[k] == 0) continue;
      merged->keys[kept] = merged->keys[k];
      merged->fields[kept] = merged->fields[k];
      merged->counts[kept++] = merged->counts[k];
    }
    segment = static_cast<int32_t>(kept - before);
  }
  merged->keys.resize(kept);
  merged->fields.resize(kept);
  merged->counts.resize(kept);
  for (int64_t i = 0; i < size; ++i) codes[i] = moved[codes[i] - first];
}

Status CheckSlots(const int64_t* slots, int64_t num_slots, int64_t dim, const int64_t* starts, int64_t ranks,
                  int64_t words) {
  for (int64_t i = 0; i < num_slots; ++i) {
    const int64_t rank = SlotRank(slots[i]), row = SlotRow(slots[i]);
    if (rank >= 0 && rank < ranks && starts[rank] + (row + 1) * dim <= words) continue;
    return Status(StatusCode::kInvalidArgument, "key " + std::to_string(i) + " has row " + std::to_string(row) +
                                                    " of rank " + std::to_string(rank) + ", which the message of " +
                                                    std::to_string(words) +
                                                    " words has not; the ranks are not at the same step");
  }
  return Status();
}

Status ExpandRows(const std::vector<ExpandPart>& parts, int64_t dim, const int32_t* reply, const int64_t* slots,
                  int64_t num_slots, const int64_t* starts, ParallelFor& pf) {
  constexpr int64_t kAhead = 8;
  std::atomic<int64_t> wrong{0};
  const auto row_of = [&](int64_t code) -> const float* {
    const int64_t place = CodePlace(code);
    if (place < 0 || place >= num_slots) return nullptr;
    const int64_t slot = slots[place];
    return reinterpret_cast<const float*>(reply) + starts[SlotRank(slot)] + SlotRow(slot) * dim;
  };
  std::vector<int64_t> ends = {0};
  for (const ExpandPart& part : parts) ends.push_back(ends.back() + part.size);
  pf.Run(ends.back(), 8 + dim / 4, [&](int64_t begin, int64_t end) {
    size_t p = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin() - 1;
    for (; begin < end; ++p) {
      const ExpandPart& part = parts[p];
      const int64_t first = begin - ends[p], last = std::min(end, ends[p + 1]) - ends[p];
      DispatchDim(dim, [&](auto constant) {
        for (int64_t i = first; i < last; ++i) {
          if (i + kAhead < last) {
            const float* ahead = row_of(part.codes[i + kAhead]);
            if (ahead != nullptr) PrefetchRow(ahead, dim);
          }
          const float* row = row_of(part.codes[i]);
          if (row != nullptr) {
            CopyRow<constant.value>(part.values + i * dim, row, dim);
          } else {
            std::fill_n(part.values + i * dim, dim, 0.0f);
            if (part.codes[i] != 0) wrong = part.codes[i];
          }
        }
      });
      begin += last - first;
    }
  });
  return wrong == 0 ? Status() : WrongExpandCode(wrong, num_slots);
}

Status WrongExpandCode(int64_t code, int64_t num_slots) {
  return Status(StatusCode::kInvalidArgument, "code " + std::to_string(code) + " names no key, there are " +
                                                  std::to_string(num_slots) +
                                                  "; look up with the slots of the op that made the codes");
}

}  // namespace tf_booster
