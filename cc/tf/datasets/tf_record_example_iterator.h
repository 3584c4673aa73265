#ifndef TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_ITERATOR_H_
#define TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_ITERATOR_H_

#include <memory>
#include <string>

#include "cc/tf/datasets/tf_record_example_dataset.h"

namespace tf_booster {

// Reads ahead in any case. With num_parallel_calls 1 it gathers and parses a batch when it is asked for one, in the
// caller's thread; else threads of its own gather and parse as many batches at once as num_parallel_calls says.
std::unique_ptr<tensorflow::data::IteratorBase> MakeTFRecordExampleIterator(const TFRecordExampleDataset* dataset,
                                                                            const std::string& prefix);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_ITERATOR_H_
