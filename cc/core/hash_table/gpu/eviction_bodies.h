// Which rows of a field leave, on the card: those of the lowest (score, hash), as cc/core/hash_table/eviction.h has it.
//
// The metas are looked through, 32 bytes a row, for the histogram of scores; those at or below the bin where the number
// of victims is reached are collected and sorted by hash and then by score, both stable. The host keeps from each look
// a bound below which no score is, and looks again only when the policy can hit something.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EVICTION_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EVICTION_BODIES_H_

#include "cc/core/hash_table/gpu/device_state.h"

namespace tf_booster {
namespace gpu {

inline constexpr int64_t kScoreBins = 4096;

struct ScoreRange {
  uint64_t not_lowest;  // ~ the lowest score, so that 0 is no score yet and both rise.
  uint64_t greatest;
  uint64_t collected;
};

struct ScoreBody {
  DeviceState state;
  uint32_t id;
  bool by_frequency;

  // The row from kFirstRow on; false for one of others.
  TFB_HOST_DEVICE bool Read(int64_t r, uint64_t* score, int64_t* key) const {
    const DeviceMeta& meta = *state.rows.Meta(static_cast<uint32_t>(kFirstRow + r));
    if (meta.field != id) return false;
    *score = static_cast<uint64_t>(by_frequency ? meta.frequency : meta.last_step);
    *key = meta.key;
    return true;
  }
};

// Unit: a row.
struct FindScoreRange : ScoreBody {
  ScoreRange* range;
  FindScoreRange(const ScoreBody& body, ScoreRange* r) : ScoreBody(body), range(r) {}
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    uint64_t score;
    int64_t key;
    if (!Read(r, &score, &key)) return;
    RaiseTo(&range->not_lowest, ~score);
    RaiseTo(&range->greatest, score);
  }
};

// Bin 0 begins at `lowest`; each has `width` scores.
struct ScoreBins {
  uint64_t lowest;
  uint64_t width;
  TFB_HOST_DEVICE uint64_t BinOf(uint64_t score) const { return (score - lowest) / width; }
};

struct CountScores : ScoreBody {
  ScoreBins bins;
  uint64_t* counts;  // [kScoreBins]
  CountScores(const ScoreBody& body, const ScoreBins& b, uint64_t* c) : ScoreBody(body), bins(b), counts(c) {}
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    uint64_t score;
    int64_t key;
    if (Read(r, &score, &key)) CountAt(counts, static_cast<int64_t>(bins.BinOf(score)), 1);
  }
};

// Those of scores up to `last`, in any order.
struct CollectScores : ScoreBody {
  uint64_t last;
  ScoreRange* range;
  uint64_t* hashes;
  int32_t* rows;
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    uint64_t score;
    int64_t key;
    if (!Read(r, &score, &key) || score > last) return;
    const uint64_t at = AtomicAdd(&range->collected, uint64_t{1});
    hashes[at] = HashKey(key, 0);
    rows[at] = static_cast<int32_t>(kFirstRow + r);
  }
};

// Unit: a collected row.
struct ReadScores : ScoreBody {
  const int32_t* rows;
  uint64_t* scores;
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    int64_t key;
    Read(rows[i] - kFirstRow, &scores[i], &key);
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EVICTION_BODIES_H_
