// TfBoosterDecodeCsv: lines are split and plain numbers read by cc/core/text.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/core/text/csv_fields.h"
#include "cc/tf/kernels/read_numbers.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/strcat.h"

namespace tf_booster {
namespace {

using tensorflow::OkStatus;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using tensorflow::strings::StrCat;
using TfStatus = tensorflow::Status;

template <class T>
bool Read(std::string_view text, T* value) {
  return ReadNumber(text, value);
}
bool Read(std::string_view text, tstring* value) {
  value->assign(text.data(), text.size());
  return true;
}

// Where the values of one field go.
struct Column {
  template <class T>
  static bool Write(const Column& column, std::string_view text, int64_t i) {
    return Read(text, static_cast<T*>(column.values) + i);
  }
  template <class T>
  static void WriteDefault(const Column& column, int64_t i) {
    static_cast<T*>(column.values)[i] = *static_cast<const T*>(column.missing);
  }
  template <class T>
  static Column Of(const Tensor& missing, const char* type, Tensor* values) {
    return {Write<T>, WriteDefault<T>, values->flat<T>().data(),
            missing.NumElements() == 1 ? missing.flat<T>().data() : nullptr, type};
  }

  bool (*write)(const Column&, std::string_view text, int64_t i);
  void (*write_default)(const Column&, int64_t i);
  void* values;
  const void* missing;  // Null: every line must have the field.
  const char* type;     // In an error.
};

Column ColumnOf(const Tensor& missing, Tensor* values) {
  switch (values->dtype()) {
    case tensorflow::DT_INT32:
      return Column::Of<int32_t>(missing, "int32", values);
    case tensorflow::DT_INT64:
      return Column::Of<int64_t>(missing, "int64", values);
    case tensorflow::DT_FLOAT:
      return Column::Of<float>(missing, "float", values);
    case tensorflow::DT_DOUBLE:
      return Column::Of<double>(missing, "double", values);
    default:
      return Column::Of<tstring>(missing, "string", values);
  }
}

class DecodeCsvOp final : public tensorflow::OpKernel {
 public:
  explicit DecodeCsvOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string delimiter;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("field_delim", &delimiter));
    OP_REQUIRES(ctx, delimiter.size() == 1, InvalidArgument("field_delim should be only 1 char"));
    format_.delimiter = delimiter[0];
    OP_REQUIRES_OK(ctx, ctx->GetAttr("use_quote_delim", &format_.quotes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("na_value", &na_value_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("select_cols", &format_.columns));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("whole", &format_.whole));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("single", &single_));
    const auto& columns = format_.columns;
    OP_REQUIRES(ctx, columns.empty() || static_cast<int>(columns.size()) == num_outputs(),
                InvalidArgument("select_cols should match output size"));
    for (size_t i = 0; i < columns.size(); ++i) {
      OP_REQUIRES(ctx, columns[i] >= 0 && (i == 0 || columns[i - 1] < columns[i]),
                  InvalidArgument("select_cols should be non-negative indices, strictly increasing"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& records = ctx->input(0);
    OpInputList defaults;
    OpOutputList outputs;
    OP_REQUIRES_OK(ctx, ctx->input_list("record_defaults", &defaults));
    OP_REQUIRES_OK(ctx, ctx->output_list("output", &outputs));
    std::vector<Column> columns;
    for (int i = 0; i < defaults.size(); ++i) {
      OP_REQUIRES(ctx, defaults[i].NumElements() < 2,
                  InvalidArgument("There should only be 1 default per field but field ", i, " has ",
                                  defaults[i].NumElements()));
      Tensor* values = nullptr;
      OP_REQUIRES_OK(ctx, outputs.allocate(i, records.shape(), &values));
      columns.push_back(ColumnOf(defaults[i], values));
    }
    CsvFields fields(format_);
    const tstring* lines = records.flat<tstring>().data();
    for (int64_t i = 0; i < records.NumElements(); ++i) OP_REQUIRES_OK(ctx, Decode(lines[i], i, columns, &fields));
  }

 private:
  // The line of record `i`. Errors are TensorFlow's: DecodeCSV counts records, CsvDataset does not.
  TfStatus Decode(const tstring& line, int64_t i, const std::vector<Column>& columns, CsvFields* split) const {
    const auto record = [&] { return format_.whole ? "record" : StrCat("record ", single_ ? 0 : i); };
    if (const char* wrong = split->Split(line)) return InvalidArgument(wrong);
    const std::vector<std::string_view>& fields = split->fields();
    if (fields.size() != columns.size()) {
      const bool more = format_.whole && fields.size() > columns.size();
      const std::string found = more ? "more" : StrCat(fields.size());
      return InvalidArgument("Expect ", columns.size(), " fields but have ", found, " in ", record());
    }
    for (size_t f = 0; f < columns.size(); ++f) {
      const Column& column = columns[f];
      if (fields[f].empty() || fields[f] == na_value_) {
        if (column.missing == nullptr) {
          return InvalidArgument("Field ", f, " is required but missing in ", record(), "!");
        }
        column.write_default(column, i);
      } else if (!column.write(column, fields[f], i)) {
        return InvalidArgument("Field ", f, " in ", record(), " is not a valid ", column.type, ": ",
                               std::string(fields[f]));
      }
    }
    return OkStatus();
  }

  CsvFormat format_;
  std::string na_value_;
  bool single_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterDecodeCsv").Device(tensorflow::DEVICE_CPU), DecodeCsvOp);

}  // namespace
}  // namespace tf_booster
