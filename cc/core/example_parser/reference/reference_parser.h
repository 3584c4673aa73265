// What a record means, said once more without a thought for speed: whole lists in std::vectors, a record at a time.
// Tests and the fuzzer hold every level of the parser against it; the Python tests hold the parser against TensorFlow.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_REFERENCE_PARSER_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_REFERENCE_PARSER_H_

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/core/example_parser/example_parser.h"
#include "cc/core/example_parser/reference/coded_stream.h"

namespace tf_booster::example_parser::reference {

struct Values {
  std::vector<int64_t> int64s;
  std::vector<float> floats;
  std::vector<std::string> bytes;
};

struct Outcome {
  ParseErrorKind error = ParseErrorKind::kNone;
  int32_t feature = -1;
  ValueType found_type = ValueType::kInt64;
  size_t found_count = 0;
  std::vector<Values> values;  // By feature.
  size_t num_entries = 0;
};

using EntryList = std::vector<std::pair<std::string, std::string_view>>;  // Key, serialized feature.

// Wire types 0, 1, 2 and 5.
inline bool SkipUnknown(CodedStream* stream) {
  const std::optional<uint32_t> tag = stream->ReadVarint32();
  if (!tag) return false;
  const int wire_type = *tag % 8;
  if (wire_type == 0) return stream->ReadVarint64().has_value();
  if (wire_type == 1) return stream->ReadRaw(8).has_value();
  if (wire_type == 5) return stream->ReadRaw(4).has_value();
  if (wire_type != 2) return false;
  const std::optional<uint32_t> length = stream->ReadVarint32();
  if (length) stream->Skip(*length);
  return length.has_value();
}

inline bool ReadMapEntry(CodedStream* stream, EntryList* entries) {
  const std::optional<uint32_t> length = stream->ReadVarint32();
  if (!length) return false;
  const int64_t limit = stream->PushLimit(*length);
  std::string key;
  std::string_view feature;
  for (int field = 0; field < 2; ++field) {
    const std::optional<uint32_t> tag = stream->ReadVarint32();
    if (tag != 10u && tag != 18u) return false;
    const std::optional<std::string_view> content = stream->ReadString();
    if (!content) return false;
    if (tag == 10u) {
      key = std::string(*content);
    } else {
      feature = *content;
    }
  }
  if (!stream->ExpectAtEnd()) return false;
  stream->PopLimit(limit);
  entries->emplace_back(key, feature);
  return true;
}

inline bool ReadExample(std::string_view record, EntryList* entries) {
  CodedStream stream(record);
  while (!stream.ExpectAtEnd()) {
    if (!stream.ExpectTag(10)) {
      if (!SkipUnknown(&stream)) return false;
      continue;
    }
    const std::optional<uint32_t> length = stream.ReadVarint32();
    if (!length) return false;
    const int64_t limit = stream.PushLimit(*length);
    while (!stream.ExpectAtEnd()) {
      if (!stream.ExpectTag(10) || !ReadMapEntry(&stream, entries)) return false;
    }
    stream.PopLimit(limit);
  }
  return true;
}

// The list of a feature, behind its tag. `wanted`: for fixed rows of floats and strings, which TensorFlow reads no
// further than the row is long. `count`: what the list has or claims.
inline bool ReadList(std::string_view list, ValueType type, std::optional<size_t> wanted, Values* values,
                     size_t* count) {
  CodedStream stream(list);
  const std::optional<uint32_t> length = stream.ReadVarint32();
  *count = 0;
  if (!length) return false;
  stream.PushLimit(*length);
  if (type == ValueType::kBytes) {
    for (; !stream.ExpectAtEnd(); ++*count) {
      if (!stream.ExpectTag(10)) return false;
      const std::optional<std::string_view> value = stream.ReadString();
      if (!value || (wanted && *count == *wanted)) return false;
      values->bytes.emplace_back(*value);
    }
    return true;
  }
  if (stream.ExpectAtEnd()) return true;
  const bool packed = stream.ExpectTag(10);
  if (packed) {
    const std::optional<uint32_t> packed_length = stream.ReadVarint32();
    if (!packed_length) return false;
    if (type == ValueType::kFloat) {
      *count = *packed_length / 4;
      const size_t read = wanted && *wanted < *count ? *wanted : *count;
      const std::optional<std::string_view> raw = stream.ReadRaw(static_cast<int64_t>(read) * 4);
      if (!raw) return false;
      values->floats.resize(read);
      if (read > 0) std::memcpy(values->floats.data(), raw->data(), raw->size());
      return true;
    }
    stream.PushLimit(*packed_length);
  }
  for (; !stream.ExpectAtEnd(); ++*count) {
    if (type == ValueType::kFloat) {
      if (!stream.ExpectTag(13)) return false;
      const std::optional<std::string_view> raw = stream.ReadRaw(4);
      if (!raw) return false;
      values->floats.emplace_back();
      std::memcpy(&values->floats.back(), raw->data(), 4);
    } else {
      if (!packed && !stream.ExpectTag(8)) return false;
      const std::optional<uint64_t> value = stream.ReadVarint64();
      if (!value) return false;
      values->int64s.push_back(static_cast<int64_t>(*value));
    }
  }
  return true;
}

inline Outcome ParseRecord(const ParserSpec& spec, std::string_view record) {
  Outcome outcome;
  outcome.values.resize(spec.size());
  const auto fail = [&](ParseErrorKind kind, int32_t feature) {
    outcome.error = kind;
    outcome.feature = feature;
    return outcome;
  };
  EntryList entries;
  if (!ReadExample(record, &entries)) return fail(ParseErrorKind::kBadRecord, -1);
  outcome.num_entries = entries.size();
  std::map<std::string, int32_t> numbers;
  for (size_t f = 0; f < spec.size(); ++f) numbers[spec.features()[f].name] = static_cast<int32_t>(f);

  std::vector<bool> seen(spec.size());
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (numbers.count(entry->first) == 0) continue;
    const int32_t f = numbers[entry->first];
    const FeatureSpec& feature = spec.features()[f];
    const std::string_view serialized = entry->second;
    const bool dense = feature.kind == FeatureKind::kFixedDense || feature.kind == FeatureKind::kVarLenDense;
    if (serialized.empty()) {
      if (!dense && spec.semantics() == Semantics::kBatch) seen[f] = true;
      continue;
    }
    if (serialized[0] != 10 && serialized[0] != 18 && serialized[0] != 26)
      return fail(ParseErrorKind::kUnsupportedType, f);
    if (seen[f]) continue;
    seen[f] = true;
    const ValueType type = static_cast<ValueType>(serialized[0] / 8);
    if (type != feature.type) {
      outcome.found_type = type;
      return fail(ParseErrorKind::kTypeMismatch, f);
    }
    const bool fixed = feature.kind == FeatureKind::kFixedDense;
    std::optional<size_t> wanted;
    if (fixed) wanted = feature.elements;
    size_t count;
    Values& values = outcome.values[f];
    if (!ReadList(serialized.substr(1), type, wanted, &values, &count)) return fail(ParseErrorKind::kBadList, f);
    if (type == ValueType::kInt64) count = values.int64s.size();
    outcome.found_count = count;
    if (fixed && count != feature.elements) return fail(ParseErrorKind::kWrongCount, f);
    if (feature.kind == FeatureKind::kVarLenDense && count % feature.elements != 0) {
      return fail(ParseErrorKind::kNotMultiple, f);
    }
  }
  for (size_t f = 0; f < spec.size(); ++f) {
    const FeatureSpec& feature = spec.features()[f];
    if (feature.kind != FeatureKind::kFixedDense || seen[f]) continue;
    if (feature.required) return fail(ParseErrorKind::kMissing, static_cast<int32_t>(f));
    outcome.values[f] = {feature.default_int64, feature.default_float, feature.default_bytes};
  }
  return outcome;
}

}  // namespace tf_booster::example_parser::reference

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_REFERENCE_PARSER_H_
