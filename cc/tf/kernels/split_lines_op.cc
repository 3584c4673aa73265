// TfBoosterSplitLines: lines are split and plain numbers read by cc/core/text.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cc/core/text/pieces.h"
#include "cc/tf/kernels/read_numbers.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OkStatus;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;
using Views = std::vector<std::string_view>;

constexpr int64_t kWhole = -1;  // Pieces that are not split into parts.

// Elements `begin` to `end` of `size`, as Python's slices have them.
struct Slice {
  Slice(int64_t begin, int64_t end, int64_t size) : begin(At(begin, size)), end(At(end, size)) {}
  static int64_t At(int64_t place, int64_t size) {
    return place < 0 ? std::max<int64_t>(place + size, 0) : std::min(place, size);
  }
  int64_t count() const { return std::max<int64_t>(end - begin, 0); }

  const int64_t begin, end;
};

struct Range {
  int64_t begin, end, part, count;
};

// What an output gives of a line.
enum class Gives { kSlice, kElement, kPadded, kCount };

struct Pick {
  int64_t range, begin, end;
  Gives gives;
  int64_t size;
  int padding;  // Which of the paddings; -1 for none.
};

// What a line has in a range: `rows` times `width` texts, read.
class Values {
 public:
  virtual ~Values() = default;
  virtual TfStatus Read(const Views& texts) = 0;
  // Elements from `begin` on, `count` of them, into a tensor from element `to` on.
  virtual void Write(int64_t begin, int64_t count, int64_t to, Tensor* tensor) const = 0;
  // `padding`, a scalar, into `count` elements from `to` on.
  virtual void Pad(const Tensor& padding, int64_t to, int64_t count, Tensor* tensor) const = 0;

  int64_t rows = 0, width = 0;
};

template <class T>
class Numbers final : public Values {
 public:
  TfStatus Read(const Views& texts) override {
    values_.resize(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      if (!ReadNumber(texts[i], &values_[i])) {
        return InvalidArgument("StringToNumberOp could not correctly convert string: ", std::string(texts[i]));
      }
    }
    return OkStatus();
  }
  void Write(int64_t begin, int64_t count, int64_t to, Tensor* tensor) const override {
    std::copy_n(values_.data() + begin, count, tensor->flat<T>().data() + to);
  }
  void Pad(const Tensor& padding, int64_t to, int64_t count, Tensor* tensor) const override {
    std::fill_n(tensor->flat<T>().data() + to, count, padding.scalar<T>()());
  }

 private:
  std::vector<T> values_;
};

class Strings final : public Values {
 public:
  TfStatus Read(const Views& texts) override {
    texts_ = texts;
    return OkStatus();
  }
  void Write(int64_t begin, int64_t count, int64_t to, Tensor* tensor) const override {
    tstring* strings = tensor->flat<tstring>().data() + to;
    for (int64_t i = 0; i < count; ++i) strings[i].assign(texts_[begin + i].data(), texts_[begin + i].size());
  }
  void Pad(const Tensor& padding, int64_t to, int64_t count, Tensor* tensor) const override {
    std::fill_n(tensor->flat<tstring>().data() + to, count, padding.scalar<tstring>()());
  }

 private:
  Views texts_;
};

std::unique_ptr<Values> ValuesOf(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_INT32:
      return std::make_unique<Numbers<int32_t>>();
    case tensorflow::DT_INT64:
      return std::make_unique<Numbers<int64_t>>();
    case tensorflow::DT_FLOAT:
      return std::make_unique<Numbers<float>>();
    case tensorflow::DT_DOUBLE:
      return std::make_unique<Numbers<double>>();
    default:
      return std::make_unique<Strings>();
  }
}

// The pieces of one line after another.
class Line {
 public:
  Line(const Splitting& outer, const Splitting& inner, size_t most) : outer_(outer), inner_(inner), most_(most) {}

  void Split(std::string_view line) {
    pieces_.clear();
    SplitPieces(line, outer_, most_, &pieces_);
  }

  // How many pieces, or rows of parts, a range has.
  int64_t RowsOf(const Range& range) const {
    return Slice(range.begin, range.end, static_cast<int64_t>(pieces_.size())).count();
  }

  // The texts of a range, and how many of them are a row. The range before it may have had the same pieces.
  TfStatus TextsOf(const Range& range, const Range* before, Views* texts, Values* values) {
    const Slice slice(range.begin, range.end, pieces_.size());
    values->rows = slice.count();
    values->width = 1;
    if (range.count == kWhole) {
      texts->assign(pieces_.begin() + slice.begin, pieces_.begin() + slice.begin + slice.count());
      return OkStatus();
    }
    const bool split =
        before != nullptr && before->count != kWhole && before->begin == range.begin && before->end == range.end;
    if (!split) TF_RETURN_IF_ERROR(SplitInner(slice));
    if (range.count > 0) {
      if (parts_ % range.count != 0) {
        return InvalidArgument(
            "Number of ways to split should evenly divide the split dimension, but got split_dim 1 (size = ", parts_,
            ") and num_split ", range.count);
      }
      values->width = parts_ / range.count;
    } else if (range.part >= parts_) {
      return InvalidArgument("slice index ", range.part, " of dimension 1 out of bounds.");
    }
    texts->clear();
    for (int64_t row = 0; row < values->rows; ++row) {
      const auto first = inner_pieces_.begin() + row * parts_ + range.part * values->width;
      texts->insert(texts->end(), first, first + values->width);
    }
    return OkStatus();
  }

 private:
  TfStatus SplitInner(const Slice& slice) {
    inner_pieces_.clear();
    size_t most = 0;
    for (int64_t i = 0; i < slice.count(); ++i) {
      const size_t before = inner_pieces_.size();
      SplitPieces(pieces_[slice.begin + i], inner_, std::numeric_limits<size_t>::max(), &inner_pieces_);
      most = std::max(most, inner_pieces_.size() - before);
    }
    if (inner_pieces_.size() != most * slice.count()) {
      return InvalidArgument("Input to reshape is a tensor with ", inner_pieces_.size(),
                             " values, but the requested shape has ", most * slice.count());
    }
    parts_ = static_cast<int64_t>(most);
    return OkStatus();
  }

  const Splitting outer_, inner_;
  const size_t most_;
  Views pieces_, inner_pieces_;
  int64_t parts_ = 0;
};

TfStatus SplittingOf(const std::string& delimiter, const std::string& empty, Splitting* splitting) {
  if (delimiter.size() > 1)
    return InvalidArgument("delimiter: '", delimiter, "' is not one character, or none for blanks");
  splitting->blanks = delimiter.empty();
  if (!delimiter.empty()) splitting->delimiter = delimiter[0];
  splitting->empty = empty == "kept"            ? EmptyPieces::kKept
                     : empty == "kept in texts" ? EmptyPieces::kKeptInTexts
                                                : EmptyPieces::kSkipped;
  return OkStatus();
}

class SplitLinesOp final : public tensorflow::OpKernel {
 public:
  explicit SplitLinesOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    for (const auto& [name, splitting] :
         {std::make_pair(std::string(), &outer_), std::make_pair(std::string("inner_"), &inner_)}) {
      std::string delimiter, empty;
      OP_REQUIRES_OK(ctx, ctx->GetAttr(name + "delimiter", &delimiter));
      OP_REQUIRES_OK(ctx, ctx->GetAttr(name + "empty", &empty));
      OP_REQUIRES_OK(ctx, SplittingOf(delimiter, empty, splitting));
    }
    const auto list = [&](const char* name) {
      std::vector<int64_t> values;
      ctx->SetStatus(ctx->GetAttr(name, &values));
      return values;
    };
    const auto begins = list("range_begins"), ends = list("range_ends"), parts = list("range_parts"),
               counts = list("range_counts");
    const auto ranges = list("ranges"), firsts = list("begins"), lasts = list("ends"), sizes = list("sizes");
    std::vector<std::string> gives;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("gives", &gives));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("range_types", &types_));
    const size_t outputs = num_outputs();
    OP_REQUIRES(ctx,
                ends.size() == begins.size() && parts.size() == begins.size() && counts.size() == begins.size() &&
                    types_.size() == begins.size(),
                InvalidArgument("range_*: lists of different lengths"));
    OP_REQUIRES(
        ctx,
        ranges.size() == outputs && firsts.size() == outputs && lasts.size() == outputs && sizes.size() == outputs &&
            gives.size() == outputs,
        InvalidArgument("ranges, begins, ends, gives and sizes: wanted one of each for each of ", outputs, " outputs"));
    for (size_t i = 0; i < begins.size(); ++i) {
      OP_REQUIRES(ctx,
                  counts[i] == kWhole || (counts[i] >= 0 && parts[i] >= 0 && (counts[i] == 0 || parts[i] < counts[i])),
                  InvalidArgument("range_parts: ", parts[i], " of ", counts[i], " is no part"));
      ranges_.push_back({begins[i], ends[i], parts[i], counts[i]});
      const bool ends_at = begins[i] >= 0 && ends[i] >= 0;
      most_ = ends_at ? std::max(most_, static_cast<size_t>(ends[i])) : std::numeric_limits<size_t>::max();
    }
    int paddings = 0;
    for (int i = 0; i < num_outputs(); ++i) {
      OP_REQUIRES(ctx, ranges[i] >= 0 && static_cast<size_t>(ranges[i]) < ranges_.size(),
                  InvalidArgument("ranges: ", ranges[i], " is none of ", ranges_.size(), " ranges"));
      const Gives kind = GivesOf(gives[i]);
      picks_.push_back({ranges[i], firsts[i], lasts[i], kind, sizes[i], kind == Gives::kPadded ? paddings++ : -1});
    }
    OP_REQUIRES(ctx, paddings == num_inputs() - 1,
                InvalidArgument("paddings: found ", num_inputs() - 1, " for ", paddings, " padded outputs"));
    pads_ = paddings > 0;
    for (int i = 0; i < num_outputs(); ++i) OP_REQUIRES_OK(ctx, CheckOutput(i));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& lines = ctx->input(0);
    const int64_t count = lines.NumElements();
    Line line(outer_, inner_, most_);
    std::vector<std::unique_ptr<Values>> values;
    for (tensorflow::DataType type : types_) values.push_back(ValuesOf(type));
    std::vector<int64_t> longest(picks_.size(), 0);
    for (int i = 1; i < ctx->num_inputs(); ++i) {
      OP_REQUIRES(ctx, tensorflow::TensorShapeUtils::IsScalar(ctx->input(i).shape()),
                  InvalidArgument("paddings: found shape ", ctx->input(i).shape().DebugString(), ", wanted scalars"));
    }
    if (pads_) Measure(lines, &line, &longest);
    if (count == 0) OP_REQUIRES_OK(ctx, Allocate(ctx, 0, values, longest));
    Views texts;
    for (int64_t i = 0; i < count; ++i) {
      line.Split(lines.flat<tstring>()(i));
      for (size_t r = 0; r < ranges_.size(); ++r) {
        OP_REQUIRES_OK(ctx, line.TextsOf(ranges_[r], r == 0 ? nullptr : &ranges_[r - 1], &texts, values[r].get()));
        OP_REQUIRES_OK(ctx, values[r]->Read(texts));
      }
      if (i == 0) OP_REQUIRES_OK(ctx, Allocate(ctx, count, values, longest));
      for (int o = 0; o < num_outputs(); ++o) OP_REQUIRES_OK(ctx, Write(ctx, o, *values[picks_[o].range], i));
    }
  }

 private:
  static Gives GivesOf(const std::string& name) {
    if (name == "padded") return Gives::kPadded;
    if (name == "count") return Gives::kCount;
    return name == "element" ? Gives::kElement : Gives::kSlice;
  }

  // Whether the type of output `i`, and what it gives, are known for its range.
  TfStatus CheckOutput(int i) const {
    const Pick& pick = picks_[i];
    const tensorflow::DataType type = output_type(i);
    if (pick.gives == Gives::kCount) {
      const bool counts = type == tensorflow::DT_INT32 || type == tensorflow::DT_INT64;
      if (!counts) return InvalidArgument("T: counts are int32 or int64, output ", i, " is not");
    } else if (type != types_[pick.range]) {
      return InvalidArgument("T: output ", i, " has another type than its range ", pick.range);
    }
    if (pick.gives != Gives::kPadded) return OkStatus();
    if (ranges_[pick.range].count > 0) return InvalidArgument("gives: the parts of output ", i, " cannot be padded");
    if (input_type(1 + pick.padding) != type) {
      return InvalidArgument("P: output ", i, " is padded with another type than its own");
    }
    return OkStatus();
  }

  // The longest slice of each padded output.
  void Measure(const Tensor& lines, Line* line, std::vector<int64_t>* longest) const {
    for (int64_t i = 0; i < lines.NumElements(); ++i) {
      line->Split(lines.flat<tstring>()(i));
      for (size_t o = 0; o < picks_.size(); ++o) {
        const Pick& pick = picks_[o];
        if (pick.gives != Gives::kPadded) continue;
        const int64_t rows = line->RowsOf(ranges_[pick.range]);
        (*longest)[o] = std::max((*longest)[o], Slice(pick.begin, pick.end, rows).count());
      }
    }
  }

  // Outputs of the first line's shapes, or as wide as the longest, for `count` lines.
  TfStatus Allocate(OpKernelContext* ctx, int64_t count, const std::vector<std::unique_ptr<Values>>& values,
                    const std::vector<int64_t>& longest) const {
    for (int o = 0; o < num_outputs(); ++o) {
      const Pick& pick = picks_[o];
      const Values& of = *values[pick.range];
      TensorShape shape({count});
      if (pick.gives == Gives::kPadded) {
        shape.AddDim(longest[o]);
      } else if (pick.gives == Gives::kSlice) {
        shape.AddDim(Slice(pick.begin, pick.end, of.rows).count());
        if (ranges_[pick.range].count > 0) shape.AddDim(of.width);
      }
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(ctx->allocate_output(o, shape, &output));
    }
    return OkStatus();
  }

  // What output `o` has of line `i`.
  TfStatus Write(OpKernelContext* ctx, int o, const Values& values, int64_t i) const {
    const Pick& pick = picks_[o];
    Tensor* output = ctx->mutable_output(o);
    if (pick.gives == Gives::kElement) {
      const int64_t at = pick.begin < 0 ? pick.begin + values.rows : pick.begin;
      if (at < 0 || at >= values.rows) {
        return InvalidArgument("slice index ", pick.begin + std::max<int64_t>(ranges_[pick.range].begin, 0),
                               " of dimension 0 out of bounds.");
      }
      values.Write(at, 1, i, output);
      return OkStatus();
    }
    const Slice slice(pick.begin, pick.end, values.rows);
    if (pick.gives == Gives::kCount) {
      if (output->dtype() == tensorflow::DT_INT32) {
        output->flat<int32_t>()(i) = static_cast<int32_t>(slice.count());
      } else {
        output->flat<int64_t>()(i) = slice.count();
      }
      return OkStatus();
    }
    if (pick.gives == Gives::kPadded) {
      const int64_t length = output->dim_size(1), count = slice.count();
      values.Write(slice.begin, count, i * length, output);
      values.Pad(ctx->input(1 + pick.padding), i * length + count, length - count, output);
      return OkStatus();
    }
    const int64_t size = slice.count() * values.width, width = output->dims() == 3 ? output->dim_size(2) : 1;
    if (pick.size >= 0 && size != pick.size) {
      return InvalidArgument("Line ", i, " of a batch has ", size, " values where ", pick.size, " are wanted");
    }
    if (slice.count() != output->dim_size(1) || values.width != width) {
      return InvalidArgument("Cannot batch tensors with different shapes: line 0 has ", output->dim_size(1), " times ",
                             width, " values, line ", i, " ", slice.count(), " times ", values.width);
    }
    values.Write(slice.begin * values.width, size, i * size, output);
    return OkStatus();
  }

  Splitting outer_, inner_;
  std::vector<Range> ranges_;
  std::vector<tensorflow::DataType> types_;  // Of ranges.
  bool pads_ = false;                        // Whether any output is padded.
  std::vector<Pick> picks_;
  size_t most_ = 0;  // Pieces of a line that are looked at.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterSplitLines").Device(tensorflow::DEVICE_CPU), SplitLinesOp);

}  // namespace
}  // namespace tf_booster
