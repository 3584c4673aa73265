#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterTFRecordExampleDataset")
    .Input("files: variant")
    .Input("compression: string")
    .Input("block_bytes: int64")
    .Input("cycle_length: int64")
    .Input("block_length: int64")
    .Input("stage_arguments: int64")
    .Input("batch_size: int64")
    .Input("drop_remainder: bool")
    .Input("batch_shards: int64")
    .Input("num_parallel_calls: int64")
    .Input("dense_defaults: Tdense")
    .Input("filter_arguments: Tfilter_arguments")
    .Output("handle: variant")
    .Attr("stages: list(string) = []")
    .Attr("filters: list(func) = []")
    .Attr("filter_keys: list(string) = []")
    .Attr("Tfilter_arguments: list(type) >= 0 = []")
    .Attr("verify_crc: bool = true")
    .Attr("errors_count: bool = false")
    .Attr("batch_errors_count: bool = false")
    .Attr("deterministic: bool = true")
    .Attr("single_examples: bool = false")
    .Attr("sparse_keys: list(string) = []")
    .Attr("sparse_types: list({float, int64, string}) = []")
    .Attr("dense_keys: list(string) = []")
    .Attr("Tdense: list({float, int64, string}) >= 0 = []")
    .Attr("dense_shapes: list(shape) = []")
    .Attr("ragged_keys: list(string) = []")
    .Attr("ragged_value_types: list({float, int64, string}) = []")
    .Attr("ragged_split_types: list({int32, int64}) = []")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    // As tf.data's own sources: a dataset in a constant would be shared, its shuffles too.
    .SetDoNotOptimize()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
A dataset from TFRecord files to batches of parsed Examples.

files: a dataset of file names, scalar strings.
compression: "", "GZIP" or "ZLIB".
block_bytes: bytes that are read at once; 0: chosen by the number of files that are open.
cycle_length, block_length: cycle_length files give block_length records in turn, in the order of tf.data's interleave.
stages: what happens to records before they are batched, by tf.data's names: shuffle, repeat, take, skip, shard, cache (in
  memory), filter.
stage_arguments: [5 * stages]: shuffle: buffer size, seed, seed2, 1 to reshuffle each epoch, 1 if copies that tf.data makes of
  the dataset go on with its seeds; repeat: count, 1 if the shuffle before it goes on filling its buffer with the next epoch;
  take, skip: count; shard: number of shards, index; filter: how many keys it takes of filter_keys, and tensors of
  filter_arguments, 1 if its function takes any number of records at once. The rest is 0.
filters: for each stage that is a filter, a function of the dense and sparse features that filter_keys names for it, in the
  order of their names, and of its filter_arguments: a bool of one record, or, [n], of n of them. It needs single_examples.
batch_shards: [2]: of the batches, only those whose number modulo the first is the second; [1, 0]: all.
num_parallel_calls: batches that are parsed at once; 1: in the caller's thread, with none ahead; -1: tuned by tf.data.
errors_count: whether an error counts as a record of the block, as in tf.data's parallel interleave.
batch_errors_count: whether an error counts as a record of its batch, as in tf.data's map_and_batch.
deterministic: whether batches keep their order.
single_examples: whether records are read as by parse_single_example: odd records, and the texts of errors, differ from
  parse_example's. Features must be dense or sparse.
The features are described as for ParseExampleV2. An element has its features in the order of their names: a dense one as its
tensor, a sparse one as a variant [3] of indices, values and shape, a ragged one as a scalar variant.
)doc");

}  // namespace tensorflow
