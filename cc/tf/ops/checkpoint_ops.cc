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

REGISTER_OP("TfBoosterLendVariable")
    .Input("resource: resource")
    .Attr("lender: string")
    .Attr("variable_name: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
Lets other sessions of this process have the value that a Variable has now, until tf_booster_return_variables(lender) is called.

variable_name: in the checkpoint, with what tells a part of a partitioned Variable from others.
)doc");

REGISTER_OP("TfBoosterBorrowVariable")
    .Input("resource: resource")
    .Output("borrowed: bool")
    .Attr("lender: string")
    .Attr("variable_name: string")
    .Attr("dtype: type")
    .Attr("gathered: bool = false")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
Gives a Variable the value that LendVariable has lent; both share the memory until one of them is updated, which copies it.

gathered: promises that what updates single rows of the Variable comes behind OwnVariable. Then gathers do not copy it first, and dense reads do.
borrowed: whether there is one of this name, on this device; else the Variable stays as it is.
)doc");

REGISTER_OP("TfBoosterOwnVariable")
    .Input("resource: resource")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn(shape_inference::NoOutputs)
    .Doc(R"doc(
Gives a Variable memory of its own, if it shares it with another one, by a copy.
)doc");

}  // namespace tensorflow
