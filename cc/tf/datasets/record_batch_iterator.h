// The iterator of datasets from files to batches.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_ITERATOR_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_ITERATOR_H_

#include <memory>
#include <string>

#include "cc/tf/datasets/record_batch_dataset.h"

namespace tf_booster {

// Reads ahead in any case. With num_parallel_calls 1 it gathers a batch and makes its element when it is asked for one,
// in the caller's thread; else threads of its own do so for as many batches at once as num_parallel_calls says.
std::unique_ptr<tensorflow::data::IteratorBase> MakeRecordBatchIterator(const RecordBatchDataset* dataset,
                                                                        const std::string& prefix);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_ITERATOR_H_
