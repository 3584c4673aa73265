#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterTFRecordBatchDataset")
    .Input("files: variant")
    .Input("compression: string")
    .Input("block_bytes: int64")
    .Input("cycle_length: int64")
    .Input("block_length: int64")
    .Input("stage_arguments: int64")
    .Input("batch_size: int64")
    .Input("drop_remainder: bool")
    .Output("handle: variant")
    .Attr("stages: list(string) = []")
    .Attr("errors_count: bool = false")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    // As tf.data's own sources: a dataset in a constant would be shared, its shuffles too.
    .SetDoNotOptimize()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
A dataset from TFRecord files to batches of their records as they are: strings [n]. n is batch_size, or fewer in the last batch.

Checksums are verified. Files are read ahead in blocks; a batch is made when it is asked for, in the caller's thread.

The inputs, stages and errors_count are those of TfBoosterTFRecordExampleDataset. There is no stage filter.
)doc");

}  // namespace tensorflow
