// tf.data's shuffle, for records.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_SHUFFLE_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_SHUFFLE_H_

#include <cstdint>
#include <memory>

#include "cc/tf/datasets/record_stream.h"
#include "cc/tf/datasets/seed_sequence.h"

namespace tf_booster {

// A buffer of `buffer_size` records; each output is a random one of them, replaced by the next of the input. The same
// records in the same order as Dataset.shuffle with the seeds of `seeds`. Records are copied into the buffer: one that
// stayed in its block would hold a megabyte. `epochs`: of the input, one after another, -1 for ever; as Dataset.shuffle
// and repeat do it together.
std::unique_ptr<RecordStream> ShuffleRecords(MakeRecordStream input, int64_t buffer_size,
                                             std::shared_ptr<SeedSequence> seeds, int64_t epochs);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_SHUFFLE_H_
