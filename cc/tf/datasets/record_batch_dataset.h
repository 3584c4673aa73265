// What the datasets from files to batches have in common, whatever a batch of records becomes.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_DATASET_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_DATASET_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/datasets/record_batch.h"
#include "cc/tf/datasets/record_pipeline.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// What the op was given, apart from the files.
struct RecordBatchOptions {
  RecordPipeline pipeline;
  int64_t num_parallel_calls = 1;
  bool deterministic = true;
  tensorflow::DataTypeVector output_types;
  std::vector<tensorflow::PartialTensorShape> output_shapes;
};

class RecordBatchDataset : public tensorflow::data::DatasetBase {
 public:
  ~RecordBatchDataset() override;

  const tensorflow::data::DatasetBase* files() const { return files_; }
  const RecordBatchOptions& options() const { return options_; }
  // "TfBooster…", without the "Dataset" of the op's name.
  const std::string& type() const { return type_; }

  // What the iterator gives for a batch. Any number of threads may call. Of `batch`, memory may be freed whose record
  // is in the element, unless batches are made ahead (num_parallel_calls): those may have to be saved.
  virtual tensorflow::Status MakeElement(RecordBatch* batch, std::vector<tensorflow::Tensor>* element) const = 0;

  const tensorflow::DataTypeVector& output_dtypes() const override { return options_.output_types; }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override { return options_.output_shapes; }
  std::string DebugString() const override { return type_ + "Dataset"; }
  int64_t CardinalityInternal(tensorflow::data::CardinalityOptions options) const override;
  int64_t CardinalityInternal() const { return CardinalityInternal({}); }  // What TensorFlow 2.12 calls in its place.
  tensorflow::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override;
  tensorflow::Status CheckExternalState() const override;

 protected:
  RecordBatchDataset(tensorflow::OpKernelContext* ctx, std::string type, const tensorflow::data::DatasetBase* files,
                     RecordBatchOptions options);

  std::unique_ptr<tensorflow::data::IteratorBase> MakeIteratorInternal(const std::string& prefix) const override;
  using Attributes = std::vector<std::pair<tensorflow::StringPiece, tensorflow::AttrValue>>;

  // What all these ops have: the inputs from files to drop_remainder, and the attributes stages and errors_count.
  tensorflow::Status AddPipeline(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                 std::vector<tensorflow::Node*>* inputs, Attributes* attributes) const;

 private:
  const std::string type_;
  const tensorflow::data::DatasetBase* const files_;
  const RecordBatchOptions options_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_DATASET_H_
