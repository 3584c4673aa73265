// What the kernels of datasets from files to batches have in common: they check the op's arguments.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_DATASET_OP_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_DATASET_OP_H_

#include <string>
#include <vector>

#include "cc/tf/datasets/record_batch_dataset.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class RecordBatchDatasetOp : public tensorflow::data::DatasetOpKernel {
 protected:
  // `op`: its name without "TfBooster", for messages. What the subclass reads of attributes it puts into options_.
  RecordBatchDatasetOp(tensorflow::OpKernelConstruction* ctx, const std::string& op, FileFormat format);

  // Reads the inputs files, compression, block_bytes, cycle_length, block_length, stage_arguments, batch_size and
  // drop_remainder; RecordPipeline::Check is still to come.
  tensorflow::Status GetPipeline(tensorflow::OpKernelContext* ctx, tensorflow::data::DatasetBase** files,
                                 RecordPipeline* pipeline) const;

  RecordBatchOptions options_;

 private:
  std::vector<std::string> stages_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_DATASET_OP_H_
