// Files to batches of what is in them, as strings: lines, records of comma-separated values, or TFRecords.
#ifndef TF_BOOSTER_CC_TF_DATASETS_STRING_BATCH_DATASET_H_
#define TF_BOOSTER_CC_TF_DATASETS_STRING_BATCH_DATASET_H_

#include <string>
#include <vector>

#include "cc/tf/datasets/record_batch_dataset.h"

namespace tf_booster {

// See the ops TfBoosterTextLineBatchDataset and TfBoosterTFRecordBatchDataset; the pipeline's format says which.
class StringBatchDataset final : public RecordBatchDataset {
 public:
  StringBatchDataset(tensorflow::OpKernelContext* ctx, const tensorflow::data::DatasetBase* files,
                     RecordBatchOptions options);

  tensorflow::Status MakeElement(RecordBatch* batch, std::vector<tensorflow::Tensor>* element) const override;

 protected:
  tensorflow::Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                        tensorflow::Node** output) const override;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_STRING_BATCH_DATASET_H_
