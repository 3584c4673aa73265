// Files to batches of their lines.
#ifndef TF_BOOSTER_CC_TF_DATASETS_TEXT_LINE_BATCH_DATASET_H_
#define TF_BOOSTER_CC_TF_DATASETS_TEXT_LINE_BATCH_DATASET_H_

#include <vector>

#include "cc/tf/datasets/record_batch_dataset.h"

namespace tf_booster {

// See the op TfBoosterTextLineBatchDataset.
class TextLineBatchDataset final : public RecordBatchDataset {
 public:
  TextLineBatchDataset(tensorflow::OpKernelContext* ctx, const tensorflow::data::DatasetBase* files,
                       RecordBatchOptions options);

  tensorflow::Status MakeElement(const RecordBatch& batch, std::vector<tensorflow::Tensor>* element) const override;

 protected:
  tensorflow::Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                        tensorflow::Node** output) const override;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_TEXT_LINE_BATCH_DATASET_H_
