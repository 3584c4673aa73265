// Functions of each element by itself, as TensorFlow computes one element alone.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterUnaryOfEach")
    .Input("x: T")
    .Output("y: T")
    .Attr("function: {'Log', 'Log1p'}")
    .Attr("T: {float, double}")
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc(R"doc(
TensorFlow's op of the name `function`, with the bits that it gives a tensor of one element.

Of more elements TensorFlow computes several at once, by other approximations, whose last bits are others. A record's value that is
computed among those of a batch is the same as alone by this op only.
)doc");

REGISTER_OP("TfBoosterBinaryOfEach")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("function: {'Maximum', 'Minimum'}")
    .Attr("T: {float, double}")
    .SetShapeFn(shape_inference::BroadcastBinaryOpShapeFn)
    .Doc(R"doc(
TensorFlow's op of the name `function`, with the bits that it gives tensors of one element: see UnaryOfEach.

x, y: of one shape, or one of them a single element.
)doc");

}  // namespace tensorflow
