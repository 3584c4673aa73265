// Many small layers of a step as one op each: their products, and the gradients of their biases.
#include <cstdint>
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

// The shapes of the products.
Status ProductShapes(InferenceContext* c, std::vector<ShapeHandle>* products) {
  int n, num_biases;
  bool transpose_a, transpose_b;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  TF_RETURN_IF_ERROR(c->GetAttr("num_biases", &num_biases));
  TF_RETURN_IF_ERROR(c->GetAttr("transpose_a", &transpose_a));
  TF_RETURN_IF_ERROR(c->GetAttr("transpose_b", &transpose_b));
  if (num_biases != 0 && num_biases != n) return errors::InvalidArgument("bias must have N entries or none");
  for (int i = 0; i < n; ++i) {
    ShapeHandle a, b, bias;
    DimensionHandle inner, columns;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &a));
    TF_RETURN_IF_ERROR(c->WithRank(c->input(n + i), 2, &b));
    TF_RETURN_IF_ERROR(c->Merge(c->Dim(a, transpose_a ? 0 : 1), c->Dim(b, transpose_b ? 1 : 0), &inner));
    columns = c->Dim(b, transpose_b ? 0 : 1);
    if (num_biases > 0) {
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * n + i), 1, &bias));
      TF_RETURN_IF_ERROR(c->Merge(columns, c->Dim(bias, 0), &columns));
    }
    products->push_back(c->Matrix(c->Dim(a, transpose_a ? 1 : 0), columns));
  }
  return OkStatus();
}

Status MultiMatMulShapes(InferenceContext* c) {
  std::vector<ShapeHandle> products;
  TF_RETURN_IF_ERROR(ProductShapes(c, &products));
  for (size_t i = 0; i < products.size(); ++i) c->set_output(static_cast<int>(i), products[i]);
  return OkStatus();
}

Status JoinedMultiMatMulShapes(InferenceContext* c) {
  std::vector<ShapeHandle> parts;
  TF_RETURN_IF_ERROR(ProductShapes(c, &parts));
  int num_others;
  TF_RETURN_IF_ERROR(c->GetAttr("num_others", &num_others));
  for (int i = c->num_inputs() - num_others; i < c->num_inputs(); ++i) {
    parts.emplace_back();
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &parts.back()));
  }
  DimensionHandle rows = c->Dim(parts[0], 0), columns = c->MakeDim(0);
  for (const ShapeHandle& part : parts) {
    TF_RETURN_IF_ERROR(c->Merge(rows, c->Dim(part, 0), &rows));
    TF_RETURN_IF_ERROR(c->Add(columns, c->Dim(part, 1), &columns));
  }
  c->set_output(0, c->Matrix(rows, columns));
  return OkStatus();
}

Status MultiBiasGradShapes(InferenceContext* c) {
  int n, num_relus;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
  TF_RETURN_IF_ERROR(c->GetAttr("num_relus", &num_relus));
  if (num_relus != 0 && num_relus != n) return errors::InvalidArgument("relu must have N entries or none");
  std::vector<int64_t> columns;
  TF_RETURN_IF_ERROR(c->GetAttr("columns", &columns));
  if (!columns.empty() && static_cast<int>(columns.size()) != n) {
    return errors::InvalidArgument("columns must have N entries or none");
  }
  for (int i = 0; i < n; ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &shape));
    if (!columns.empty()) {
      shape = c->Matrix(c->Dim(shape, 0), c->MakeDim(columns[i]));
    } else if (num_relus > 0) {
      TF_RETURN_IF_ERROR(c->Merge(shape, c->input(n + i), &shape));
    }
    c->set_output(i, c->Vector(c->Dim(shape, 1)));
    if (num_relus > 0) c->set_output(n + i, shape);
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterMultiMatMul")
    .Input("a: N * float")
    .Input("b: N * float")
    .Input("bias: num_biases * float")
    .Output("product: N * float")
    .Attr("N: int >= 1")
    .Attr("num_biases: int >= 0")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("relu: bool = false")
    .SetShapeFn(MultiMatMulShapes)
    .Doc(R"doc(
MatMul of each pair of matrices, and, where there are biases, BiasAdd and, with `relu`, Relu of its result.

Made for small matrices: a pair is worked on by few instructions, all pairs by all threads.

a: rank 2, transposed if transpose_a.
b: rank 2, transposed if transpose_b.
bias: [columns of the product] each, or an empty list.
)doc");

REGISTER_OP("TfBoosterJoinedMultiMatMul")
    .Input("a: N * float")
    .Input("b: N * float")
    .Input("bias: num_biases * float")
    .Input("others: num_others * float")
    .Output("joined: float")
    .Attr("N: int >= 1")
    .Attr("num_biases: int >= 0")
    .Attr("num_others: int >= 0")
    .Attr("order: list(int)")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("relu: bool = false")
    .SetShapeFn(JoinedMultiMatMulShapes)
    .Doc(R"doc(
The results of TfBoosterMultiMatMul, and other matrices, beside each other: what ConcatV2 makes of them along axis 1.

others: [rows, columns] each.
order: the parts of the result from left to right; i is product i, N + i is others[i]. Each stands there once.
joined: [rows, all columns].
)doc");

REGISTER_OP("TfBoosterMultiBiasGrad")
    .Input("upstream: N * float")
    .Input("relu: num_relus * float")
    .Output("bias: N * float")
    .Output("gradient: num_relus * float")
    .Attr("N: int >= 1")
    .Attr("num_relus: int >= 0")
    .Attr("columns: list(int) = []")
    .Attr("upstream_column: list(int) = []")
    .Attr("relu_column: list(int) = []")
    .SetShapeFn(MultiBiasGradShapes)
    .Doc(R"doc(
BiasAddGrad of each gradient [rows, columns]; with `relu`, the results of Relus, of ReluGrad of it, which is returned too.

columns: with it, gradient i is columns[i] columns of upstream[i] from upstream_column[i] on, and its Relu's result as many
  of relu[i] from relu_column[i] on: parts of wider matrices, where they lie.
bias: [columns] each, the sums over rows.
gradient: upstream where relu is above 0, and 0 elsewhere; an empty list without relu.
)doc");

}  // namespace tensorflow
