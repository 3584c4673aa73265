// Shapes of outputs that an op is told.
#ifndef TF_BOOSTER_CC_TF_OPS_DECLARED_SHAPES_H_
#define TF_BOOSTER_CC_TF_OPS_DECLARED_SHAPES_H_

#include <vector>

#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {

// A shape function: attr 'shapes' has what is known of the shape of each output.
inline Status DeclaredShapes(shape_inference::InferenceContext* c) {
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
  if (static_cast<int>(shapes.size()) != c->num_outputs()) {
    return errors::InvalidArgument("attr 'shapes' has ", shapes.size(), " shapes; wanted one for each of ",
                                   c->num_outputs(), " tensors");
  }
  for (int i = 0; i < c->num_outputs(); ++i) {
    shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return OkStatus();
}

}  // namespace tensorflow

#endif  // TF_BOOSTER_CC_TF_OPS_DECLARED_SHAPES_H_
