#ifndef TF_BOOSTER_CC_TF_DATASETS_REPEAT_LAST_ITERATOR_H_
#define TF_BOOSTER_CC_TF_DATASETS_REPEAT_LAST_ITERATOR_H_

#include <memory>
#include <string>

#include "cc/tf/datasets/repeat_last_dataset.h"

namespace tf_booster {

std::unique_ptr<tensorflow::data::IteratorBase> MakeRepeatLastIterator(const RepeatLastDataset* dataset,
                                                                       const std::string& prefix);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_REPEAT_LAST_ITERATOR_H_
