#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterMergeCheckpoints")
    .Input("prefixes: string")
    .Input("index: string")
    .Input("num_shards: int64")
    .Output("files: string")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      return OkStatus();
    })
    .Doc(R"doc(
Writes the index of one V2 checkpoint over the data files of several, which stay as they are.

A tensor that several checkpoints have becomes the concatenation of theirs along the first dimension, in the order of prefixes, stored as slices;
of a scalar the first counts. Tensors of the same name must be equal in dtype and in the other dimensions.

prefixes: vector, at least 1. index: the path of the file to write. num_shards: of the checkpoint, at least as many as there are data files; 0: as many.
files: data file i is to be named as shard i of num_shards.
)doc");

}  // namespace tensorflow
