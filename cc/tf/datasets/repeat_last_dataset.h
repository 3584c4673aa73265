// A dataset that goes on with its last element when its input has ended: ranks that run dry wait for the others with
// it.
#ifndef TF_BOOSTER_CC_TF_DATASETS_REPEAT_LAST_DATASET_H_
#define TF_BOOSTER_CC_TF_DATASETS_REPEAT_LAST_DATASET_H_

#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// See the op TfBoosterRepeatLastDataset.
class RepeatLastDataset : public tensorflow::data::DatasetBase {
 public:
  static constexpr char kType[] = "TfBoosterRepeatLast";

  RepeatLastDataset(tensorflow::OpKernelContext* ctx, const tensorflow::data::DatasetBase* input,
                    const tensorflow::data::DatasetBase* fallback, tensorflow::DataTypeVector output_types,
                    std::vector<tensorflow::PartialTensorShape> output_shapes);
  ~RepeatLastDataset() override;

  const tensorflow::data::DatasetBase* input() const { return input_; }
  const tensorflow::data::DatasetBase* fallback() const { return fallback_; }

  const tensorflow::DataTypeVector& output_dtypes() const override { return output_types_; }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override { return output_shapes_; }
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
  const tensorflow::data::DatasetBase* const input_;
  const tensorflow::data::DatasetBase* const fallback_;
  const tensorflow::DataTypeVector output_types_;
  const std::vector<tensorflow::PartialTensorShape> output_shapes_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_REPEAT_LAST_DATASET_H_
