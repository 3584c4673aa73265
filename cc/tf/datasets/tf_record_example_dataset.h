// The dataset behind tf_booster.TFRecordExampleDataset: files to batches of parsed Examples.
#ifndef TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_DATASET_H_
#define TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_DATASET_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/tf/datasets/element_parser.h"
#include "cc/tf/datasets/record_pipeline.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// What the op was given, apart from the files.
struct TFRecordExampleOptions {
  RecordPipeline pipeline;
  int64_t num_parallel_calls = 1;
  bool deterministic = true;
  ElementParser::Config features;
  bool single_examples = false;
  tensorflow::DataTypeVector output_types;
  std::vector<tensorflow::PartialTensorShape> output_shapes;
};

class TFRecordExampleDataset : public tensorflow::data::DatasetBase {
 public:
  static constexpr char kType[] = "TfBoosterTFRecordExample";

  TFRecordExampleDataset(tensorflow::OpKernelContext* ctx, const tensorflow::data::DatasetBase* files,
                         TFRecordExampleOptions options, std::shared_ptr<const ElementParser> parser);
  ~TFRecordExampleDataset() override;

  const tensorflow::data::DatasetBase* files() const { return files_; }
  const TFRecordExampleOptions& options() const { return options_; }
  const ElementParser& parser() const { return *parser_; }

  const tensorflow::DataTypeVector& output_dtypes() const override { return options_.output_types; }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override { return options_.output_shapes; }
  std::string DebugString() const override { return std::string(kType) + "Dataset"; }
  int64_t CardinalityInternal(tensorflow::data::CardinalityOptions options) const override;
  int64_t CardinalityInternal() const { return CardinalityInternal({}); }  // What TensorFlow 2.12 calls in its place.
  tensorflow::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override;
  tensorflow::Status CheckExternalState() const override;

 protected:
  std::unique_ptr<tensorflow::data::IteratorBase> MakeIteratorInternal(const std::string& prefix) const override;
  tensorflow::Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                        tensorflow::Node** output) const override;

 private:
  const tensorflow::data::DatasetBase* const files_;
  const TFRecordExampleOptions options_;
  const std::shared_ptr<const ElementParser> parser_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_TF_RECORD_EXAMPLE_DATASET_H_
