#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

// They say that they have state, so TensorFlow neither folds nor merges nor drops them.
REGISTER_OP("TfBoosterHostAllToAll")
    .Input("tensor: T")
    .Input("splits: int32")
    .Output("received: T")
    .Output("received_splits: int32")
    .Attr("T: numbertype")
    .Attr("collective: string")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      shape_inference::ShapeHandle tensor;
      TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &tensor));
      if (!c->RankKnown(tensor)) {
        c->set_output(0, tensor);
      } else {
        TF_RETURN_IF_ERROR(c->ReplaceDim(tensor, 0, c->UnknownDim(), &tensor));
        c->set_output(0, tensor);
      }
      c->set_output(1, c->input(1));
      return OkStatus();
    })
    .Doc(R"doc(
Sends the first splits[0] rows of a tensor to rank 0, the next splits[1] to rank 1 and so on, through shared memory.

tensor: of rank 1 at least; rows behind those that splits counts stay at home.
collective: ranks that run a collective of this name exchange with each other; one at a time in a process.
received: the rows from rank 0, from rank 1, …
received_splits: how many from each.
)doc");

REGISTER_OP("TfBoosterHostAllGather")
    .Input("bytes: uint8")
    .Output("gathered: uint8")
    .Attr("collective: string")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      return OkStatus();
    })
    .Doc("The bytes of all ranks, in their order, through shared memory. collective: as of HostAllToAll.");

REGISTER_OP("TfBoosterHostAllReduce")
    .Input("vector: T")
    .Output("sum: T")
    .Attr("T: {float, double, int32, int64}")
    .Attr("collective: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc(R"doc(
The sum over all ranks of a tensor that has the same shape on each, through shared memory. They are added in the order of ranks, so all
ranks get the same bits. collective: as of HostAllToAll.
)doc");

}  // namespace tensorflow
