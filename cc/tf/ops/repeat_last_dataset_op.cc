#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterRepeatLastDataset")
    .Input("input_dataset: variant")
    .Input("fallback: variant")
    .Output("handle: variant")
    .Attr("output_types: list(type) >= 2")
    .Attr("output_shapes: list(shape) >= 2")
    .Attr("metadata: string = ''")
    // As tf.data's own sources: a dataset in a constant would be shared, its shuffles too.
    .SetDoNotOptimize()
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
A dataset that goes on with its last element when its input has ended, and says so.

An element has the input's components and two float32 scalars: live, 1 for an element of the input and 0 for one that comes
again; has_next, 1 if a live element follows. It looks one element ahead. An error of the input comes in the place of its element.

input_dataset: the dataset.
fallback: when input_dataset has no element at all, the first element of this is repeated instead, with live 0. When it has none
  either, the dataset is empty. It is not read otherwise.
)doc");

}  // namespace tensorflow
