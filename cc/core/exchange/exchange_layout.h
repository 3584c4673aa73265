// What the ranks agree on beforehand about one exchange of ids, rows and gradients, and how a message lies in memory.
//
// An exchange serves several probes, each of one table. A probe has a segment for each field that it looks up; a
// segment's keys are sorted by owner. Every message is an array of 32-bit words, cut into one chunk for each rank:
//
//   ids        fingerprint, rows of the sender's batch, keys of each segment | keys | sightings of each key
//   rows       fingerprint | embeddings, in the order of the keys that were asked for
//   gradients  fingerprint, rows of each lane (or kAllKeys) | notes | places of the rows | sums of gradients
//
// "Lanes" are the gradients' segments: one for each segment that a gradient has keys of. Chunks, and the rows inside,
// start at multiples of 64 bytes, so that a row of dim 16 stays one cache line.
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/status.h"
#include "cc/core/hash_table/partition.h"

namespace tf_booster {

// Words that a message may have: the collective counts them in 32 bits.
inline constexpr int64_t kMaxExchangeWords = INT32_MAX;

inline int64_t AlignedWords(int64_t words) { return (words + 15) / 16 * 16; }

// One probe's part of an exchange.
struct ExchangeProbe {
  int64_t dim = 0;               // Of the table.
  std::vector<uint32_t> fields;  // One for each segment, distinct.
  bool counted = false;          // Sightings travel with the keys, because an update follows.
};

struct ExchangeLayout {
  int32_t ranks = 1;
  PartitionMode mode = PartitionMode::kHash;
  std::vector<ExchangeProbe> probes;

  int64_t num_segments() const {
    int64_t n = 0;
    for (const ExchangeProbe& probe : probes) n += static_cast<int64_t>(probe.fields.size());
    return n;
  }

  // Differs, almost surely, between ranks whose graphs differ.
  int32_t Fingerprint() const {
    uint64_t hash = Mix64(static_cast<uint64_t>(ranks) * 2 + (mode == PartitionMode::kMod));
    const auto add = [&](uint64_t value) { hash = Mix64(hash + value + 0x9E3779B97F4A7C15ull); };
    for (const ExchangeProbe& probe : probes) {
      add(static_cast<uint64_t>(probe.dim) * 2 + probe.counted);
      add(probe.fields.size());
      for (const uint32_t field : probe.fields) add(field);
    }
    return static_cast<int32_t>(hash >> 33);
  }
};

// A code is (group << 40) | (1 + its key's place in the probe); 0 stands for no key.
inline constexpr int kCodeGroupBits = 40;
inline int64_t CodePlace(int64_t code) { return (code & ((int64_t{1} << kCodeGroupBits) - 1)) - 1; }
inline int64_t CodeGroup(int64_t code) { return code >> kCodeGroupBits; }

// Where a key's row will be: the rank that owns it, and the place among the rows of its probe that come from there.
inline constexpr int kSlotRankBits = 40;
inline int64_t MakeSlot(int64_t rank, int64_t row) { return (rank << kSlotRankBits) | row; }
inline int64_t SlotRank(int64_t slot) { return slot >> kSlotRankBits; }
inline int64_t SlotRow(int64_t slot) { return slot & ((int64_t{1} << kSlotRankBits) - 1); }

// Where the chunks of a received message of `size` words begin; `what` names it in errors. Checks the sum of the
// splits, and that each chunk is large enough for a header of `header` words.
inline Status ChunkBegins(const char* what, int64_t size, const int32_t* splits, int32_t ranks, int64_t header,
                          std::vector<int64_t>* begins) {
  int64_t begin = 0;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    if (splits[rank] < header || begin + splits[rank] > size) {
      return Status(StatusCode::kInvalidArgument, std::string(what) + " of rank " + std::to_string(rank) +
                                                      ": the message has " + std::to_string(splits[rank]) +
                                                      " words, but its header alone has " + std::to_string(header));
    }
    begins->push_back(begin);
    begin += splits[rank];
  }
  return Status();
}

// That the chunks of all ranks begin with this fingerprint.
inline Status CheckFingerprints(const char* what, const std::vector<const int32_t*>& chunks, int32_t fingerprint) {
  for (size_t rank = 0; rank < chunks.size(); ++rank) {
    if (chunks[rank][0] == fingerprint) continue;
    return Status(StatusCode::kInvalidArgument,
                  std::string(what) + " of rank " + std::to_string(rank) +
                      ": its tables or features differ from this rank's; start all ranks with one program, and "
                      "build one graph in all of them");
  }
  return Status();
}

// Cuts a received message into chunks, and checks them.
inline Status CutChunks(const char* what, const int32_t* words, int64_t size, const int32_t* splits, int32_t ranks,
                        int32_t fingerprint, int64_t header, std::vector<const int32_t*>* chunks) {
  std::vector<int64_t> begins;
  TFB_RETURN_IF_ERROR(ChunkBegins(what, size, splits, ranks, header, &begins));
  for (const int64_t begin : begins) chunks->push_back(words + begin);
  return CheckFingerprints(what, *chunks, fingerprint);
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_
