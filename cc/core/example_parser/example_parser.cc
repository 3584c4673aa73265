#include "cc/core/example_parser/example_parser.h"

#include <string>
#include <utility>

#include "cc/core/example_parser/exact_record.h"
#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/slice_state.h"

namespace tf_booster::example_parser {

ParsedSlice::ParsedSlice() = default;
ParsedSlice::~ParsedSlice() = default;
ParsedSlice::ParsedSlice(ParsedSlice&&) noexcept = default;
ParsedSlice& ParsedSlice::operator=(ParsedSlice&&) noexcept = default;

ExampleParser::ExampleParser(std::shared_ptr<const ParserSpec> spec, SimdLevel level)
    : spec_(std::move(spec)), level_(level) {}

bool ExampleParser::Parse(const Record* records, size_t n, size_t first_row, void* const* fixed_outputs,
                          ParsedSlice* slice, ParseError* error) const {
  Empty(slice);
  return Append(records, n, first_row, fixed_outputs, slice, error);
}

void ExampleParser::Empty(ParsedSlice* slice) const {
  if (slice->state_ == nullptr || slice->state_->spec != spec_) {
    *slice = ParsedSlice();
    slice->state_ = std::make_unique<SliceState>(spec_);
  }
  slice->state_->Empty(slice);
}

bool ExampleParser::Append(const Record* records, size_t n, size_t first_row, void* const* fixed_outputs,
                           ParsedSlice* slice, ParseError* error) const {
  SliceState& state = *slice->state_;
  state.Start(slice, fixed_outputs, first_row, n);
  const ScanFunctions& scan = ScanFor(level_);
  const Semantics semantics = spec_->semantics();
  const auto scan_records = semantics == Semantics::kFeatureLists ? scan.scan_feature_lists : scan.scan_records;
  const bool plain_only = semantics == Semantics::kFeatureLists || semantics == Semantics::kContext;
  for (size_t i = 0; i < n; ++i) {
    i = scan_records(state, records, i, n);
    if (i == n) break;
    if (plain_only) *error = {ParseErrorKind::kNotPlain};
    if (plain_only || !ParseExactly(state, level_, records[i], i, error)) {
      error->record = first_row + i;
      state.Finish(slice, 0);
      return false;
    }
  }
  state.Finish(slice, n);
  return true;
}

Status ToStatus(const ParseError& error, const ParserSpec& spec) {
  if (error.kind == ParseErrorKind::kNone) return Status();
  constexpr const char* kTypes[] = {"no", "bytes", "float", "int64"};
  std::string text = "Parser: record " + std::to_string(error.record);
  const FeatureSpec* feature = nullptr;
  if (error.feature >= 0) {
    feature = &spec.features()[error.feature];
    text += ", feature '" + feature->name + "'";
  }
  switch (error.kind) {
    case ParseErrorKind::kUnsupportedType:
      text += " is of a kind other than bytes, float and int64";
      break;
    case ParseErrorKind::kTypeMismatch:
      text += std::string(" has ") + kTypes[static_cast<int>(error.found_type)] + " values, but " +
              kTypes[static_cast<int>(feature->type)] + " are wanted";
      break;
    case ParseErrorKind::kBadList:
      text += " has a malformed list";
      if (feature->kind == FeatureKind::kFixedDense && feature->type == ValueType::kBytes) {
        text += ", or more values than " + std::to_string(feature->elements);
      }
      break;
    case ParseErrorKind::kWrongCount:
      text += " has " + std::to_string(error.found_count) + " values, but " + std::to_string(feature->elements) +
              " are wanted";
      break;
    case ParseErrorKind::kNotMultiple:
      text += " has " + std::to_string(error.found_count) + " values, but a multiple of " +
              std::to_string(feature->elements) + " is wanted";
      break;
    case ParseErrorKind::kMissing:
      text += " is missing and has no default";
      break;
    case ParseErrorKind::kNotPlain:
      text += " is in an unusual form, or broken";
      break;
    default:
      text += " is not a serialized tf.train.Example";
  }
  return Status(StatusCode::kInvalidArgument, text);
}

}  // namespace tf_booster::example_parser
