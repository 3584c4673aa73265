// The dataset behind tf_booster.TFRecordExampleDataset: files to batches of parsed Examples.
#ifndef TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_DATASET_H_
#define TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_DATASET_H_

#include <memory>
#include <vector>

#include "cc/tf/datasets/element_parser.h"
#include "cc/tf/datasets/record_batch_dataset.h"

namespace tf_booster {

class TFRecordExampleDataset final : public RecordBatchDataset {
 public:
  TFRecordExampleDataset(tensorflow::OpKernelContext* ctx, const tensorflow::data::DatasetBase* files,
                         RecordBatchOptions options, ElementParser::Config features, bool single_examples,
                         std::shared_ptr<const ElementParser> parser);

  tensorflow::Status MakeElement(RecordBatch* batch, std::vector<tensorflow::Tensor>* element) const override {
    return parser_->Parse(*batch, element);
  }

 protected:
  tensorflow::Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                        tensorflow::Node** output) const override;

 private:
  const ElementParser::Config features_;
  const bool single_examples_;
  const std::shared_ptr<const ElementParser> parser_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_DATASET_H_
