#include "cc/tf/ops/declared_shapes.h"
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

}  // namespace tensorflow
