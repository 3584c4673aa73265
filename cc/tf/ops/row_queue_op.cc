#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterRowQueue")
    .Output("handle: resource")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("capacity: int = -1")
    .Attr("shuffle: bool = false")
    .Attr("min_after_dequeue: int = 0")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
A queue for TensorFlow's own ops of queues (QueueEnqueueManyV2, QueueDequeueManyV2 and the like), which keeps rows in blocks.

It does what FIFOQueueV2 does, and with shuffle what RandomShuffleQueueV2 does: the same elements in the same order, the same errors. Those make
a tensor of each component of each element.

handle: of the queue.
component_types: numbers, bool or string. shapes: of each component of an element, fully defined. capacity: elements; less than 0: any number.
min_after_dequeue: elements that stay, until the queue is closed. seed: with seed2 what a shuffle draws by; both 0: at random.
)doc");

}  // namespace tensorflow
