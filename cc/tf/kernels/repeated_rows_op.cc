// TfBoosterRepeatedRows: which rows of a batch are the same in all features.
#include "cc/core/repeats/repeated_rows.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

class RepeatedRowsOp final : public tensorflow::OpKernel {
 public:
  explicit RepeatedRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("names", &names_));
    OP_REQUIRES(ctx, !names_.empty(),
                InvalidArgument("RepeatedRows '", name(), "': names is empty; name the features"));
  }

  void Compute(OpKernelContext* ctx) override {
    OpInputList dense, values, indices, shapes;
    OP_REQUIRES_OK(ctx, ctx->input_list("dense", &dense));
    OP_REQUIRES_OK(ctx, ctx->input_list("values", &values));
    OP_REQUIRES_OK(ctx, ctx->input_list("indices", &indices));
    OP_REQUIRES_OK(ctx, ctx->input_list("dense_shapes", &shapes));
    OP_REQUIRES(ctx, static_cast<int>(names_.size()) == dense.size() + values.size() && values.size() == indices.size(),
                InvalidArgument("RepeatedRows '", name(), "': names has ", names_.size(), " entries, but there are ",
                                dense.size(), " dense and ", values.size(), " sparse features"));
    std::vector<int64_t> rows;
    for (int i = 0; i < dense.size(); ++i) {
      OP_REQUIRES(ctx, dense[i].dims() > 0, Refused(i, "is a scalar; a feature has a row for each example"));
      rows.push_back(dense[i].dim_size(0));
    }
    for (int i = 0; i < values.size(); ++i) {
      OP_REQUIRES_OK(ctx, CheckSparse(dense.size() + i, indices[i], values[i], shapes[i]));
      rows.push_back(shapes[i].vec<int64_t>()(0));
    }
    for (size_t i = 1; i < rows.size(); ++i) {
      OP_REQUIRES(ctx, rows[i] == rows[0],
                  Refused(static_cast<int>(i), "has " + std::to_string(rows[i]) + " rows, '" + names_[0] + "' has " +
                                                   std::to_string(rows[0]) +
                                                   "; leave the one that has not a row for each example out of "
                                                   "enable_gpu_booster(repeated_features=…)"));
    }
    OP_REQUIRES(ctx, rows[0] < std::numeric_limits<int32_t>::max(), Refused(0, "has 2^31 rows or more"));
    std::vector<RowFeature> features;
    std::vector<std::vector<std::string_view>> texts(dense.size() + values.size());
    for (int i = 0; i < dense.size(); ++i) features.push_back(Dense(dense[i], &texts[i]));
    std::vector<EntriesByRow> entries(values.size());
    for (int i = 0; i < values.size(); ++i) {
      const int64_t size = indices[i].dim_size(0), rank = indices[i].dim_size(1);
      const int64_t* first = indices[i].flat<int64_t>().data();
      const Status sorted = EntriesByRow::Of(first, size, rank, rows[0], &entries[i]);
      OP_REQUIRES(ctx, sorted.ok(), Refused(dense.size() + i, "has an entry outside: " + sorted.message()));
      AddSparse(values[i], first, rank, &entries[i], &texts[dense.size() + i], &features);
    }
    TfParallelFor pf(ctx);
    const RepeatedRows found = FindRepeatedRows(features, rows[0], pf);
    OP_REQUIRES_OK(ctx, Put(ctx, 0, found.first_rows));
    OP_REQUIRES_OK(ctx, Put(ctx, 1, found.row_of));
  }

 private:
  tensorflow::Status Refused(int feature, const std::string& why) const {
    return InvalidArgument("RepeatedRows '", name(), "': feature '", names_[feature], "' ", why);
  }

  tensorflow::Status CheckSparse(int feature, const Tensor& indices, const Tensor& values, const Tensor& shape) const {
    if (indices.dims() == 2 && values.dims() == 1 && shape.dims() == 1 && indices.dim_size(0) == values.dim_size(0) &&
        indices.dim_size(1) == shape.dim_size(0) && shape.dim_size(0) > 0 && shape.vec<int64_t>()(0) >= 0) {
      return tensorflow::OkStatus();
    }
    return Refused(feature, "has indices " + indices.shape().DebugString() + ", values " +
                                values.shape().DebugString() + " and dense_shape " + shape.shape().DebugString() +
                                "; wanted [n, rank], [n] and [rank], of which the first is not negative");
  }

  static RowFeature Dense(const Tensor& tensor, std::vector<std::string_view>* texts) {
    const int64_t rows = tensor.dim_size(0);
    RowFeature feature;
    if (tensor.dtype() == tensorflow::DT_STRING) {
      feature.strings = Texts(tensor, texts);
      feature.items_a_row = rows == 0 ? 0 : tensor.NumElements() / rows;
    } else {
      feature.bytes = tensor.tensor_data().data();
      feature.item_bytes = feature.item_stride = rows == 0 ? 0 : static_cast<int64_t>(tensor.TotalBytes()) / rows;
      feature.items_a_row = 1;
    }
    return feature;
  }

  static void AddSparse(const Tensor& values, const int64_t* indices, int64_t rank, const EntriesByRow* entries,
                        std::vector<std::string_view>* texts, std::vector<RowFeature>* features) {
    RowFeature value, place;
    value.entries = place.entries = entries;
    if (values.dtype() == tensorflow::DT_STRING) {
      value.strings = Texts(values, texts);
    } else {
      value.bytes = values.tensor_data().data();
      value.item_bytes = value.item_stride = tensorflow::DataTypeSize(values.dtype());
    }
    features->push_back(value);
    place.bytes = reinterpret_cast<const char*>(indices + 1);
    place.item_bytes = (rank - 1) * static_cast<int64_t>(sizeof(int64_t));
    place.item_stride = rank * static_cast<int64_t>(sizeof(int64_t));
    if (rank > 1) features->push_back(place);
  }

  static const std::string_view* Texts(const Tensor& tensor, std::vector<std::string_view>* texts) {
    const auto flat = tensor.flat<tensorflow::tstring>();
    texts->reserve(flat.size());
    for (int64_t i = 0; i < flat.size(); ++i) texts->emplace_back(flat(i).data(), flat(i).size());
    return texts->data();
  }

  static tensorflow::Status Put(OpKernelContext* ctx, int output, const std::vector<int32_t>& numbers) {
    Tensor* out = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {static_cast<int64_t>(numbers.size())}, &out));
    std::copy(numbers.begin(), numbers.end(), out->flat<int32_t>().data());
    return tensorflow::OkStatus();
  }

  std::vector<std::string> names_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterRepeatedRows").Device(tensorflow::DEVICE_CPU), RepeatedRowsOp);

}  // namespace
}  // namespace tf_booster
