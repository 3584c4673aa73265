#include "cc/tf/ops/declared_shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tensorflow {

REGISTER_OP("TfBoosterArrivedBatch")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: list(type) >= 1")
    .Attr("shapes: list(shape)")
    .SetIsStateful()
    .SetShapeFn(DeclaredShapes)
    .Doc(R"doc(
x as they are, of shapes that whoever sent them through a queue knows, and optimizers then know too.

They neither see through it nor leave it out, so that a run that is fed all of x needs no batch from the queue.
)doc");

REGISTER_OP("TfBoosterWholeBatch").SetIsStateful().SetShapeFn(shape_inference::NoOutputs).Doc(R"doc(
Does nothing. What waits for it waits for all of a batch, and not only for what it reads of it.
)doc");

REGISTER_OP("TfBoosterEnqueueBatch")
    .Input("x: T")
    .Output("sent: int32")
    .Attr("T: list(type) >= 1")
    .Attr("container: string = ''")
    .Attr("shared_name: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
Puts x, a batch, into the queue of this name; references, no copies. Never waits: the queue has no limit.

sent: 1, for a TfBoosterDequeueBatch in the same run that takes this batch.
)doc");

REGISTER_OP("TfBoosterDequeueBatch")
    .Input("sent: int32")
    .Output("y: T")
    .Attr("T: list(type) >= 1")
    .Attr("container: string = ''")
    .Attr("shared_name: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape)
    .Doc(R"doc(
Takes the batch that was put first into the queue of this name. Never waits: an empty queue is an error.

sent: whose value does not matter: a run gives it when it knows that a batch is there, and it waits for who sends one.
)doc");

REGISTER_OP("TfBoosterBatchQueueSize")
    .Output("size: int32")
    .Attr("container: string = ''")
    .Attr("shared_name: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
How many batches wait in the queue of this name.
)doc");

}  // namespace tensorflow
