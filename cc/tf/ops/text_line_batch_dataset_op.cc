#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterTextLineBatchDataset")
    .Input("files: variant")
    .Input("compression: string")
    .Input("block_bytes: int64")
    .Input("cycle_length: int64")
    .Input("block_length: int64")
    .Input("stage_arguments: int64")
    .Input("batch_size: int64")
    .Input("drop_remainder: bool")
    .Input("header_lines: int64")
    .Output("handle: variant")
    .Attr("stages: list(string) = []")
    .Attr("errors_count: bool = false")
    .Attr("csv_delimiter: string = ''")
    .Attr("csv_quotes: bool = true")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    // As tf.data's own sources: a dataset in a constant would be shared, its shuffles too.
    .SetDoNotOptimize()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
A dataset from files of text to batches of their lines: strings [n]. n is batch_size, or fewer in the last batch.

A line ends at a newline, which is left out, as is every carriage return in it; the last line of a file needs no newline.
Files are read ahead in blocks; a batch is made when it is asked for, in the caller's thread.

header_lines: how many lines at the start of each file are left out.
csv_delimiter: a character: elements are records of comma-separated values between such, as CsvDataset reads them, in place of lines.
One ends at a newline, a carriage return or both, but within a field in quotes, and may be empty. A file without the header is an error.
csv_quotes: whether fields of such a record may stand in quotes.

The other inputs, stages and errors_count are those of TfBoosterTFRecordExampleDataset, of lines in place of records. There is no
stage filter. A file that cannot be opened or read is an error each time that its next line is asked for, as of
TextLineDataset.
)doc");

}  // namespace tensorflow
