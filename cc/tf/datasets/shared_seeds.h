// Seeds that the datasets of this process know by a number, so that a copy which tf.data makes of a shuffled dataset to
// optimize it draws from the same sequence: the epochs of a dataset are then shuffled one unlike the other, though each
// iterator has a copy of its own. So does tf.data's ShuffleDatasetV3, which eager programs have; a copy of
// ShuffleDataset and ShuffleAndRepeatDataset, which graphs of version 1 have, begins anew.
#ifndef TF_BOOSTER_CC_TF_DATASETS_SHARED_SEEDS_H_
#define TF_BOOSTER_CC_TF_DATASETS_SHARED_SEEDS_H_

#include <cstdint>
#include <memory>

#include "cc/tf/datasets/seed_sequence.h"

namespace tf_booster {

// The number by which SharedSeeds finds `seeds` as long as somebody has them.
int64_t ShareSeeds(const std::shared_ptr<SeedSequence>& seeds);

// Null: nobody has them any more, or no such number was given.
std::shared_ptr<SeedSequence> SharedSeeds(int64_t number);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_SHARED_SEEDS_H_
