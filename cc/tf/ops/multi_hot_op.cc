// Ids of many features as multi-hot rows, by one op.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status MultiHotShapes(InferenceContext* c) {
  std::vector<int64_t> depths;
  std::vector<bool> apart;
  TF_RETURN_IF_ERROR(c->GetAttr("depths", &depths));
  TF_RETURN_IF_ERROR(c->GetAttr("apart", &apart));
  const size_t n = c->num_inputs();
  if (depths.size() != n || apart.size() != n) {
    return errors::InvalidArgument("MultiHot: ", depths.size(), " depths and ", apart.size(), " apart, wanted ", n,
                                   " of each, as there are ids");
  }
  for (size_t i = 0; i < n; ++i) {
    if (depths[i] < 1)
      return errors::InvalidArgument("MultiHot: depths[", i, "] is ", depths[i], ", wanted at least 1");
    ShapeHandle ids;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &ids));
    DimensionHandle width = c->MakeDim(depths[i]);
    if (apart[i]) TF_RETURN_IF_ERROR(c->Multiply(c->Dim(ids, 1), width, &width));
    c->set_output(i, c->Matrix(c->Dim(ids, 0), width));
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterMultiHot")
    .Input("ids: N * int64")
    .Output("multi_hot: N * float")
    .Attr("N: int >= 1")
    .Attr("depths: list(int)")
    .Attr("apart: list(bool)")
    .SetShapeFn(MultiHotShapes)
    .Doc(R"doc(
What OneHot makes of ids, added up over the ids of a row or beside each other, for many features at once.

ids: [rows, ids of a row]; one outside of [0, depth) counts nowhere. multi_hot: [rows, depth], how often each id stands in a row;
where `apart`, [rows, ids of a row * depth], each id in columns of its own.
)doc");

}  // namespace tensorflow
